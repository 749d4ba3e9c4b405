// Micro-batches of preference pairs and of labelled answers.
#pragma once

#include <cstdint>
#include <span>

#include "common/spec/train.hpp"
#include "worker/train/data/corpus/sampler.hpp"
#include "worker/train/data/references.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// How pairs and labelled answers become rows.
struct PairRows {
    std::int64_t seq_length = 0;  // each answer with its prompt is cut to seq_length + 1 tokens
    std::int64_t vocab = 0;
    const PairReferences* references = nullptr;  // null: the objective has no reference
    bool labels = false;                         // the windows hold labelled answers
    bool mismatched = false;                     // also make Microbatch::mismatched
};

// Returns the rules of a job. `references` may be null.
PairRows pair_rows(const spec::TrainSpec& spec, std::int64_t vocab,
                   const PairReferences* references);

// Returns a micro-batch of whole pairs. Its one row of tokens has the chosen answer of the first
// pair, each token a position, then the rejected one, then those of the next pair, as segments and
// without padding. Labelled answers are packed likewise, one segment each; a mismatched answer is
// the prompt of one with the answer of mismatched_document(). A micro-batch without pairs or
// answers has one position with an ignored target. Throws RankFailure(invalid) if a token is not
// below `vocab`.
Microbatch pair_batch(std::span<const data::Window> pairs, const PairRows& rules);

}  // namespace roll::train
