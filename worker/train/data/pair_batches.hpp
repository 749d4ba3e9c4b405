// Micro-batches of preference pairs and of labelled answers.
#pragma once

#include <cstdint>
#include <span>

#include "common/spec/train/train.hpp"
#include "worker/train/data/corpus/sampler.hpp"
#include "worker/train/data/references.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// The rules that turn pairs and labelled answers into rows.
struct PairRows {
    data::RowRules rows = {};  // how an answer with its prompt is truncated
    std::int64_t vocab = 0;
    // reference values; null: the objective has no reference model
    const PairReferences* references = nullptr;
    bool labels = false;      // true: the windows hold labelled answers
    bool mismatched = false;  // true: also make Microbatch::mismatched
    // Padding token of a reward model; -1: none. Padding tokens at the end of an answer are left
    // out, because transformers takes the score at the token before them.
    std::int64_t pad = -1;
};

// Returns the rules of a job. `references` may be null. `pad`: see PairRows::pad.
PairRows pair_rows(const spec::TrainSpec& spec, std::int64_t vocab,
                   const PairReferences* references, std::int64_t pad = -1);

// Returns a micro-batch of whole pairs: one row of tokens without padding. Each answer, with its
// prompt, is one segment of the row. A pair has two adjacent segments, the chosen answer first. A
// labelled answer has one segment. A mismatched answer combines the prompt of a labelled answer
// with the answer of mismatched_document().
//
// A segment of a reward model also includes the answer's last token, whose target is ignored.
// Without pairs or answers, the micro-batch has one position with an ignored target. Throws
// RankFailure(invalid) if a token is not below `vocab`.
Microbatch pair_batch(std::span<const data::Window> pairs, const PairRows& rules);

// Returns a micro-batch with one segment for each prompt with its answer. Tokens of the
// prompt are stored as ~id. Without answers, the micro-batch has one position with an ignored
// target.
Microbatch answer_batch(std::span<const data::Tokens> answers, const PairRows& rules);

}  // namespace roll::train
