// Prepares what a rank needs before the ranks connect: the job's spec, its model config and
// tokenizer, and the corpus as tokens. Tokenizing text may take hours; no other rank waits for it
// in a collective, and finished work is kept if it is interrupted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/protocol/rank.hpp"
#include "worker/train/data/learned.hpp"
#include "worker/train/model_setup.hpp"
#include "worker/train/worker_link.hpp"

namespace roll::train {

struct TrainingData {
    spec::TrainSpec spec;
    ModelSetup model;
    data::Corpus corpus;
    std::vector<data::Corpus> valid;  // from spec.data.valid_files
    // Counted on rank 0 only, and only if documents are kept apart.
    data::LearnedDocuments learned = {};
    std::vector<std::string> identity = {};  // on rank 0: checkpoint::State::data
};

// Returns nullopt if this rank was told to stop. Throws RankFailure; on rank 0 also (invalid) if no
// document has a token to learn.
std::optional<TrainingData> prepare_training(const protocol::Launch& launch, int rank,
                                             WorkerLink& link);

// Runs a job of kind tokenize: makes the token files that a training job with the same text,
// tokenizer and rules will find. Returns the exit status, 0 or yielded. Throws RankFailure.
int tokenize_ahead(const protocol::Launch& launch, WorkerLink& link);

}  // namespace roll::train
