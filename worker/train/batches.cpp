#include "worker/train/batches.hpp"

#include <ATen/ATen.h>

#include "worker/train/failure.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

Microbatch empty_batch(const spec::TrainSpec& spec) {
    const std::int64_t sizes_BT[] = {spec.micro_batch_size, spec.seq_length};
    return {at::zeros(sizes_BT, at::kLong), at::full(sizes_BT, ops::kIgnored, at::kLong)};
}

std::int64_t checked(std::int64_t token, std::int64_t vocab) {
    if (token >= 0 && token < vocab) return token;
    throw RankFailure(2, "data: token " + std::to_string(token) + " is not one of the model's " +
                             std::to_string(vocab) + "; the token file is another tokenizer's");
}

// Inputs are all but the last token, targets all but the first.
void fill_row(const Microbatch& batch, std::int64_t row, std::int64_t vocab, data::Tokens tokens) {
    const std::int64_t length = batch.tokens_BT.size(1);
    std::int64_t* inputs = batch.tokens_BT.data_ptr<std::int64_t>() + row * length;
    std::int64_t* targets = batch.targets_BT.data_ptr<std::int64_t>() + row * length;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        inputs[i] = checked(tokens[i], vocab);
        targets[i] = checked(tokens[i + 1], vocab);
    }
}

}  // namespace

std::int64_t first_sample(const spec::TrainSpec& spec, std::int64_t step, int dp_rank) {
    return step * spec.global_batch_size + dp_rank * spec.microbatches() * spec.micro_batch_size;
}

std::vector<Microbatch> step_batches(const data::Sampler& sampler, const spec::TrainSpec& spec,
                                     std::int64_t vocab, std::int64_t step, int dp_rank) {
    std::int64_t sample = first_sample(spec, step, dp_rank);
    std::vector<Microbatch> batches;
    for (std::int64_t m = 0; m < spec.microbatches(); ++m) {
        batches.push_back(empty_batch(spec));
        for (std::int64_t row = 0; row < spec.micro_batch_size; ++row)
            fill_row(batches.back(), row, vocab,
                     sampler.sample(static_cast<std::uint64_t>(sample++)));
    }
    return batches;
}

std::vector<Microbatch> valid_batches(const std::vector<data::Tokens>& windows,
                                      const spec::TrainSpec& spec, std::int64_t vocab,
                                      int dp_rank) {
    const std::int64_t rows = spec.micro_batch_size * spec.parallel.dp;  // of all ranks at once
    std::vector<Microbatch> batches;
    for (std::int64_t begin = 0; begin < std::ssize(windows); begin += rows) {
        batches.push_back(empty_batch(spec));
        for (std::int64_t row = 0; row < spec.micro_batch_size; ++row) {
            const std::int64_t window = begin + dp_rank * spec.micro_batch_size + row;
            if (window < std::ssize(windows)) fill_row(batches.back(), row, vocab, windows[window]);
        }
    }
    return batches;
}

std::int64_t predicted_bytes(const std::vector<data::Tokens>& windows,
                             const tokenizer::Tokenizer& tokenizer) {
    std::int64_t bytes = 0;
    for (const data::Tokens& window : windows) {
        std::vector<std::uint32_t> ids;
        for (std::size_t i = 1; i < window.size(); ++i)
            ids.push_back(static_cast<std::uint32_t>(window[i]));
        bytes += std::ssize(tokenizer.decode(ids, /*skip_special=*/true));
    }
    return bytes;
}

}  // namespace roll::train
