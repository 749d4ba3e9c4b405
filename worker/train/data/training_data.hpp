// Prepares the data that a rank needs before the ranks connect: the job's spec, its model config
// and tokenizer, and the corpus as tokens. Tokenizing text may take hours. Meanwhile, no rank waits
// in a collective, because the ranks are not connected yet. If tokenizing is interrupted, the
// finished part of the work is kept.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/protocol/rank.hpp"
#include "worker/train/data/corpus/learned.hpp"
#include "worker/train/data/task.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/process/worker_link.hpp"

namespace roll::train {

struct TrainingData {
    spec::TrainSpec spec;
    ModelSetup model;
    data::Corpus corpus;
    std::vector<data::Corpus> valid;  // corpora of spec.data.valid_files
    // Counts of documents by their contribution to the loss. On ranks other than rank 0, all counts
    // are 0. On rank 0, they are 0 if spec.data has neither documents_apart nor completions.
    data::LearnedDocuments learned = {};
    std::vector<std::string> identity = {};  // hashes for checkpoint::State::data; only on rank 0
    // Hashes of the tokens of each file: first the files of `corpus`, then the files in `valid`
    std::vector<std::string> hashes = {};
    std::filesystem::path tokens = {};  // directory of the token files
    std::vector<Task> tasks = {};       // tasks of spec.evaluation
};

// Prepares the data of a rank. Returns nullopt if told to stop. Throws RankFailure. On rank 0,
// throws RankFailure(invalid) if no document contributes to the loss.
std::optional<TrainingData> prepare_training(const protocol::Launch& launch, int rank,
                                             WorkerLink& link);

// Runs a job of kind tokenize. Makes the token files that a training job with the same text,
// tokenizer and rules will use. Returns the exit status: 0, or the status of a rank that was told
// to stop. Throws RankFailure.
int tokenize_ahead(const protocol::Launch& launch, WorkerLink& link);

}  // namespace roll::train
