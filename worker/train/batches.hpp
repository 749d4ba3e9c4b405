// The corpus as micro-batches. Where documents are to be kept apart, a micro-batch says where they
// begin, and no token is predicted from the document before its own.
#pragma once

#include <span>
#include <vector>

#include "common/spec/train.hpp"
#include "worker/tokenizer/tokenizer.hpp"
#include "worker/train/data/sampler.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// The micro-batches of one data-parallel rank in the step after `step` steps. Sample number
// step * global_batch_size + j is row j of the step whatever dp is: dp rank d has the d-th part.
// The rows of samples that are left out (ascending) hold no target that counts.
//
// Throws RankFailure(invalid) naming a token that a vocabulary of `vocab` does not have.
std::vector<Microbatch> step_batches(const data::Sampler& sampler, const spec::TrainSpec& spec,
                                     std::int64_t vocab, std::int64_t step, int dp_rank,
                                     std::span<const std::int64_t> left_out = {});

// This rank's share of the held-out windows, as many micro-batches on every rank. Short rows are
// filled up with targets that do not count.
std::vector<Microbatch> valid_batches(std::span<const data::Window> windows,
                                      const spec::TrainSpec& spec, std::int64_t vocab, int dp_rank);

// The bytes of text that the windows' targets are: all tokens but each window's first and those
// that are only read, special ones being none.
std::int64_t predicted_bytes(const std::vector<data::Window>& windows,
                             const tokenizer::Tokenizer& tokenizer);

// How long the sequences of these micro-batches are that see nothing of each other.
std::vector<std::int64_t> piece_lengths(std::span<const Microbatch> batch);

// For messages: the first sample of a rank's part of a step.
std::int64_t first_sample(const spec::TrainSpec& spec, std::int64_t step, int dp_rank);

}  // namespace roll::train
