#include "worker/train/model/sequences.hpp"

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

// Calls body(sequence, begin, end) for the rows [begin, end) of each sequence.
template <class Body>
void for_sequences(const Microbatch& data, const Body& body) {
    ROLL_CHECK(!data.segments.empty());
    for (std::size_t i = 0; i < data.segments.size(); ++i) {
        const bool last = i + 1 == data.segments.size();
        body(i, data.segments[i], last ? data.tokens_BT.numel() : data.segments[i + 1]);
    }
}

PairBatch batch_of(const spec::PreferenceSpec& spec, const Microbatch& data,
                   std::span<const double> log_probs, std::span<const double> tokens, double kl) {
    const std::int64_t answers = samples_in(spec, data) * (spec.is_unpaired() ? 1 : 2);
    ROLL_CHECK(std::ssize(log_probs) >= answers);
    ROLL_CHECK(data.references.empty() || std::ssize(data.references) >= answers);
    return {log_probs, data.references, tokens, data.labels, kl, data.margins};
}

}  // namespace

Balance balance_of(const spec::ModelConfig& config, const Microbatch& data, const LossRule& rule) {
    if (config.experts == 0) return {};
    const double scale = rule.scale * data.targets_BT.ne(ops::kIgnored).sum().item<double>();
    return {scale, config.balance_loss * scale, rule.loads};
}

std::vector<double> sequence_sums(const Microbatch& data, const at::Tensor& row_M) {
    const auto* rows = row_M.const_data_ptr<double>();
    std::vector<double> sums(data.segments.size());
    for_sequences(data, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) sums[i] += rows[row];
    });
    return sums;
}

std::vector<double> sequence_tokens(const Microbatch& data) {
    const at::Tensor counts_M = data.targets_BT.ne(ops::kIgnored).to(at::kDouble).flatten();
    return sequence_sums(data, counts_M);
}

std::vector<double> sequence_coefficients(const Microbatch& data, const LossRule& rule,
                                          std::span<const double> values) {
    const std::vector<double> tokens = sequence_tokens(data);
    return pair_coefficients(*rule.preference,
                             batch_of(*rule.preference, data, values, tokens, rule.kl), rule.pairs);
}

at::Tensor row_scales(const Microbatch& data, const LossRule& rule,
                      std::span<const double> log_probs) {
    const std::vector<double> coefficients = sequence_coefficients(data, rule, log_probs);
    const at::Tensor scale_M = at::empty({data.tokens_BT.numel()}, at::TensorOptions(at::kDouble));
    auto* scales = scale_M.data_ptr<double>();
    for_sequences(data, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
        // A row's loss is the negative of its log-probability.
        std::fill(scales + begin, scales + end, -coefficients[i]);
    });
    return scale_M;
}

PairSums sums_of(const spec::PreferenceSpec& spec, const Microbatch& data,
                 std::span<const double> log_probs, double kl) {
    const std::vector<double> tokens = sequence_tokens(data);
    return pair_sums(spec, batch_of(spec, data, log_probs, tokens, kl));
}

std::span<const double> row_of(const at::Tensor& log_probs_KS, std::size_t microbatch) {
    const auto length = static_cast<std::size_t>(log_probs_KS.size(1));
    return {log_probs_KS.const_data_ptr<double>() + microbatch * length, length};
}

std::int64_t most_sequences(std::span<const Microbatch> batch) {
    std::int64_t most = 0;
    for (const Microbatch& data : batch) most = std::max(most, std::ssize(data.segments));
    return most;
}

}  // namespace roll::train
