// The sequences of a micro-batch of answers (Microbatch::segments), whose log-probabilities an
// objective compares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/spec/preference.hpp"
#include "common/spec/token_loss.hpp"
#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/objective/preference.hpp"

namespace roll::train {

// How the last stage turns the rows of a micro-batch into a loss.
struct LossRule {
    double scale = 0;  // factor of the summed loss of the rows, if `preference` is null
    spec::TokenLossSpec tokens = {};  // terms of that loss, and the noise of the first stage
    std::uint64_t seed = 0;           // of the noise
    const spec::PreferenceSpec* preference = nullptr;
    PairScale pairs = {};  // the factors, if `preference` is not null
    double kl = 0;         // PairBatch::kl
};

// Returns the number of pairs, or of labelled answers.
inline std::int64_t samples_in(const spec::PreferenceSpec& spec, const Microbatch& data) {
    return spec.is_unpaired() ? std::ssize(data.labels) : std::ssize(data.segments) / 2;
}

// Returns the sum of `row_M` (doubles on the CPU) over each sequence.
std::vector<double> sequence_sums(const Microbatch& data, const at::Tensor& row_M);

// Returns the number of targets of each sequence that are not ignored.
std::vector<double> sequence_tokens(const Microbatch& data);

// Returns the factor of each row's loss, [M], doubles on the CPU: the derivative of the loss of the
// pairs with respect to it. `log_probs`: the log-probabilities of the sequences.
at::Tensor row_scales(const Microbatch& data, const LossRule& rule,
                      std::span<const double> log_probs);

// Returns the sums of a micro-batch's pairs or labelled answers.
PairSums sums_of(const spec::PreferenceSpec& spec, const Microbatch& data,
                 std::span<const double> log_probs, double kl);

}  // namespace roll::train
