// The corpus as micro-batches. Where documents are to be kept apart, a micro-batch says where they
// begin, and no token is predicted from the document before its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/spec/train.hpp"
#include "worker/tokenizer/tokenizer.hpp"
#include "worker/train/data/sampler.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// Where a rank stands: the step after `step` steps, which used up `samples` samples, of which it
// has data-parallel part `dp_rank`. Row j of the step is sample number samples + j whatever dp is.
struct StepPlace {
    const spec::TrainSpec& spec;
    std::int64_t step = 0;
    std::int64_t samples = 0;
    int dp_rank = 0;

    std::int64_t first() const {  // of this rank's part
        return samples + dp_rank * spec.microbatches() * spec.micro_batch_size;
    }
};

// The micro-batches of one rank in a step. The rows of samples that are left out (ascending) hold
// no target that counts.
//
// Throws RankFailure(invalid) naming a token that a vocabulary of `vocab` does not have.
std::vector<Microbatch> step_batches(const data::Sampler& sampler, const StepPlace& place,
                                     std::int64_t vocab,
                                     std::span<const std::int64_t> left_out = {});

// This rank's share of the held-out windows, as many micro-batches on every rank. Short rows are
// filled up with targets that do not count.
std::vector<Microbatch> valid_batches(std::span<const data::Window> windows,
                                      const spec::TrainSpec& spec, std::int64_t vocab, int dp_rank);

// Whether any of a window's targets counts.
bool predicts(const data::Window& window, const spec::TrainSpec& spec);

// The bytes of text that the windows' targets are: all tokens but each window's first and those
// that are only read, special ones being none.
std::int64_t predicted_bytes(const std::vector<data::Window>& windows,
                             const tokenizer::Tokenizer& tokenizer);

// How long the sequences of these micro-batches are that see nothing of each other.
std::vector<std::int64_t> piece_lengths(std::span<const Microbatch> batch);

}  // namespace roll::train
