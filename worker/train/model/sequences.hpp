// The sequences of a micro-batch of answers (Microbatch::segments). An objective compares their
// log-probabilities.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/spec/train/preference.hpp"
#include "common/spec/train/token_loss.hpp"
#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/model/experts.hpp"
#include "worker/train/objective/preference.hpp"

namespace roll::train {

// Describes how the last stage computes a loss from the rows of a micro-batch.
struct LossRule {
    double scale = 0;  // factor of the sum of the rows' losses; used only if `preference` is null
    // options of the loss of each token: additional terms of the loss, and the noise that the first
    // stage adds to the embeddings
    spec::TokenLossSpec tokens = {};
    std::uint64_t seed = 0;  // seed of the noise
    const spec::PreferenceSpec* preference = nullptr;
    PairScale pairs = {};          // factors of the loss; used only if `preference` is not null
    double kl = 0;                 // divergence from the reference model (PairBatch::kl)
    ExpertLoads* loads = nullptr;  // counts the rows of experts; null: they are not counted
};

// Returns the number of pairs, or of labelled answers, in the micro-batch.
inline std::int64_t samples_in(const spec::PreferenceSpec& spec, const Microbatch& data) {
    return spec.is_unpaired() ? std::ssize(data.labels) : std::ssize(data.segments) / 2;
}

// Returns how a micro-batch counts in the balance loss: by its part of the loss's targets.
Balance balance_of(const spec::ModelConfig& config, const Microbatch& data, const LossRule& rule);

// Returns, for each sequence, the sum of its elements of `row_M` (doubles on the CPU).
std::vector<double> sequence_sums(const Microbatch& data, const at::Tensor& row_M);

// Returns, for each sequence, the number of its targets that are not ignored.
std::vector<double> sequence_tokens(const Microbatch& data);

// Returns, for each sequence, the derivative of the loss of the pairs with respect to the
// sequence's value. `values`: the log-probabilities or the scores of the sequences.
std::vector<double> sequence_coefficients(const Microbatch& data, const LossRule& rule,
                                          std::span<const double> values);

// Returns, for each row, the derivative of the loss of the pairs with respect to the row's loss.
// The result is a tensor [M] of doubles on the CPU. `log_probs`: the log-probabilities of the
// sequences.
at::Tensor row_scales(const Microbatch& data, const LossRule& rule,
                      std::span<const double> log_probs);

// Returns the row of log_probs_KS that has the log-probabilities of a micro-batch's sequences.
std::span<const double> row_of(const at::Tensor& log_probs_KS, std::size_t microbatch);

// Returns the largest number of sequences in a micro-batch.
std::int64_t most_sequences(std::span<const Microbatch> batch);

// Returns the sums over a micro-batch's pairs or labelled answers.
PairSums sums_of(const spec::PreferenceSpec& spec, const Microbatch& data,
                 std::span<const double> log_probs, double kl);

}  // namespace roll::train
