#include "worker/train/batches.hpp"

#include <ATen/ATen.h>

#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

Microbatch empty_batch(const spec::TrainSpec& spec) {
    const std::int64_t sizes_BT[] = {spec.micro_batch_size, spec.seq_length};
    return {at::zeros(sizes_BT, at::kLong), at::full(sizes_BT, ops::kIgnored, at::kLong)};
}

// Inputs are all but the last token, targets all but the first.
void fill_row(const Microbatch& batch, std::int64_t row, data::Tokens tokens) {
    const std::int64_t length = batch.tokens_BT.size(1);
    std::int64_t* inputs = batch.tokens_BT.data_ptr<std::int64_t>() + row * length;
    std::int64_t* targets = batch.targets_BT.data_ptr<std::int64_t>() + row * length;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        inputs[i] = tokens[i];
        targets[i] = tokens[i + 1];
    }
}

}  // namespace

std::int64_t first_sample(const spec::TrainSpec& spec, std::int64_t step, int dp_rank) {
    return step * spec.global_batch_size + dp_rank * spec.microbatches() * spec.micro_batch_size;
}

std::vector<Microbatch> step_batches(const data::Sampler& sampler, const spec::TrainSpec& spec,
                                     std::int64_t step, int dp_rank) {
    std::int64_t sample = first_sample(spec, step, dp_rank);
    std::vector<Microbatch> batches;
    for (std::int64_t m = 0; m < spec.microbatches(); ++m) {
        batches.push_back(empty_batch(spec));
        for (std::int64_t row = 0; row < spec.micro_batch_size; ++row)
            fill_row(batches.back(), row, sampler.sample(static_cast<std::uint64_t>(sample++)));
    }
    return batches;
}

std::vector<Microbatch> valid_batches(const std::vector<data::Tokens>& windows,
                                      const spec::TrainSpec& spec, int dp_rank) {
    const std::int64_t rows = spec.micro_batch_size * spec.parallel.dp;  // of all ranks at once
    std::vector<Microbatch> batches;
    for (std::int64_t begin = 0; begin < std::ssize(windows); begin += rows) {
        batches.push_back(empty_batch(spec));
        for (std::int64_t row = 0; row < spec.micro_batch_size; ++row) {
            const std::int64_t window = begin + dp_rank * spec.micro_batch_size + row;
            if (window < std::ssize(windows)) fill_row(batches.back(), row, windows[window]);
        }
    }
    return batches;
}

}  // namespace roll::train
