// Turns the corpus into micro-batches. If documents are kept apart, each document is a segment of
// its micro-batch. Then no token is predicted from the tokens of another document.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/spec/train/train.hpp"
#include "worker/tokenizer/tokenizer.hpp"
#include "worker/train/data/corpus/sampler.hpp"
#include "worker/train/data/pair_batches.hpp"
#include "worker/train/data/teacher_values.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// The position of a rank in the data: `step` completed steps have consumed `samples` samples. The
// next global batch begins at sample `samples`, for any number of data-parallel ranks. The rank
// reads part `dp_rank` of the batch (sample_parts.hpp).
struct StepPlace {
    const spec::TrainSpec& spec;
    std::int64_t step = 0;
    std::int64_t samples = 0;
    int dp_rank = 0;
};

struct BatchRules {
    std::int64_t vocab = 0;
    std::span<const std::int64_t> left_out = {};  // samples to leave out, ascending
    // reference values of pairs; null: there is no reference model
    const PairReferences* references = nullptr;
    std::int64_t pad = -1;  // the padding token of a reward model (PairRows::pad)
    const TeacherValuesFiles* teacher = nullptr;  // null: there is no teacher
    // the model, from which the costs of samples are computed; required if spec.balance is set
    const spec::ModelConfig* config = nullptr;
    std::int64_t tokens_most = 0;  // a micro-batch with more tokens is split; 0: none is split
};

// Returns one rank's micro-batches of a step. All ranks have the same number of micro-batches. If
// micro-batches are split, this number may be above spec.microbatches(). If a sample is left out,
// all targets in its rows are ignored; a pair that is left out has no rows. Throws
// RankFailure(invalid) if a token is not below `vocab`; the message names the token.
std::vector<Microbatch> step_batches(const data::Sampler& sampler, const StepPlace& place,
                                     const BatchRules& rules);

// Returns this rank's share of the held-out windows. Every rank gets the same number of
// micro-batches. Short rows are padded with ignored targets.
std::vector<Microbatch> valid_batches(std::span<const data::Window> windows,
                                      const spec::TrainSpec& spec, const BatchRules& rules,
                                      int dp_rank);

// Returns the number of targets of the window that count in the loss.
std::int64_t targets_of(const data::Window& window, const spec::TrainSpec& spec);

// Returns the number of bytes of text in the tokens that the windows predict. Does not count the
// first token of a window, context-only tokens (tokens.hpp) and special tokens, because these are
// not predicted.
std::int64_t predicted_bytes(const std::vector<data::Window>& windows,
                             const tokenizer::Tokenizer& tokenizer);

// Returns the lengths of the sequences in the micro-batches. A sequence is a run of tokens that
// attend only to tokens of the same sequence.
std::vector<std::int64_t> piece_lengths(std::span<const Microbatch> batch);

}  // namespace roll::train
