// What a rank makes ready before the ranks meet: the job's spec, its model's config and tokenizer,
// and the corpus as tokens. It may take hours where text has to be tokenized first; no other rank
// waits for it in a collective, and what is done stays done when it is interrupted.
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
    std::vector<data::Corpus> valid;  // of spec.data.valid_files
    // Of rank 0, where documents are kept apart; else nothing is counted.
    data::LearnedDocuments learned = {};
    std::vector<std::string> identity = {};  // of rank 0: checkpoint::State::data
};

// Nothing if this rank was told to stop. Throws RankFailure; on rank 0 (invalid) if no document has
// a token to learn.
std::optional<TrainingData> prepare_training(const protocol::Launch& launch, int rank,
                                             WorkerLink& link);

// A job of kind tokenize: makes the token files that a training job of the same text, tokenizer and
// rules finds. Returns the exit status, 0 or yielded. Throws RankFailure.
int tokenize_ahead(const protocol::Launch& launch, WorkerLink& link);

}  // namespace roll::train
