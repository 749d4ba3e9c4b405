#include "worker/train/data/batches.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "worker/train/data/token_check.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

Microbatch empty_batch(const spec::TrainSpec& spec) {
    const std::int64_t sizes_BT[] = {spec.micro_batch_size, spec.seq_length};
    Microbatch batch{at::zeros(sizes_BT, at::kLong), at::full(sizes_BT, ops::kIgnored, at::kLong)};
    for (std::int64_t row = 0; spec.data.documents_apart && row < spec.micro_batch_size; ++row)
        batch.segments.push_back(row * spec.seq_length);
    return batch;
}

struct RowRules {
    std::int64_t vocab = 0;
    bool documents_apart = false;
    bool completions = false;  // true: a negative token is context only; it is stored as ~id
};

RowRules rules_of(const spec::TrainSpec& spec, std::int64_t vocab) {
    return {vocab, spec.data.documents_apart, spec.data.completions};
}

// Fills one row of the micro-batch. Its inputs are all tokens of the window except the last; its
// targets are all tokens except the first.
void fill_row(Microbatch& batch, std::int64_t row, const RowRules& rules,
              const data::Window& window) {
    const data::Tokens tokens = window.tokens();
    const std::int64_t length = batch.tokens_BT.size(1);
    std::int64_t* inputs = batch.tokens_BT.data_ptr<std::int64_t>() + row * length;
    std::int64_t* targets = batch.targets_BT.data_ptr<std::int64_t>() + row * length;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        const std::int64_t token = tokens[i], next = tokens[i + 1];
        const auto is_read = [&](std::int64_t id) { return rules.completions && id < 0; };
        inputs[i] = checked_token(is_read(token) ? data::only_read(token) : token, rules.vocab);
        targets[i] = is_read(next) ? ops::kIgnored : checked_token(next, rules.vocab);
    }
    if (!rules.documents_apart) return;
    for (const std::size_t start : window.document_starts()) {
        targets[start - 1] = ops::kIgnored;
        if (start + 1 < tokens.size())
            batch.segments.push_back(row * length + static_cast<std::int64_t>(start));
    }
    std::sort(batch.segments.begin(), batch.segments.end());
}

}  // namespace

std::vector<std::int64_t> piece_lengths(std::span<const Microbatch> batch) {
    std::vector<std::int64_t> lengths;
    for (const Microbatch& one : batch) {
        const std::int64_t rows = one.tokens_BT.size(0), length = one.tokens_BT.size(1);
        if (one.segments.empty())
            lengths.insert(lengths.end(), static_cast<std::size_t>(rows), length);
        for (std::size_t i = 0; i < one.segments.size(); ++i) {
            const bool last = i + 1 == one.segments.size();
            lengths.push_back((last ? rows * length : one.segments[i + 1]) - one.segments[i]);
        }
    }
    return lengths;
}

namespace {

// Like step_batches(), for pairs and labelled answers.
std::vector<Microbatch> pair_step(const data::Sampler& sampler, const StepPlace& place,
                                  const BatchRules& rules) {
    const spec::TrainSpec& spec = place.spec;
    std::int64_t sample = place.first();
    std::vector<Microbatch> batches;
    for (std::int64_t m = 0; m < spec.microbatches(); ++m) {
        std::vector<data::Window> pairs;
        for (std::int64_t pair = 0; pair < spec.micro_batch_size; ++pair, ++sample)
            if (!std::binary_search(rules.left_out.begin(), rules.left_out.end(), sample))
                pairs.push_back(sampler.sample(static_cast<std::uint64_t>(sample)));
        batches.push_back(
            pair_batch(pairs, pair_rows(spec, rules.vocab, rules.references, rules.pad)));
        batches.back().first_row =
            (sample - spec.micro_batch_size) * spec.sequences_per_sample() * spec.seq_length;
    }
    return batches;
}

}  // namespace

std::vector<Microbatch> step_batches(const data::Sampler& sampler, const StepPlace& place,
                                     const BatchRules& given) {
    const spec::TrainSpec& spec = place.spec;
    if (spec.data.has_answers()) return pair_step(sampler, place, given);
    std::int64_t sample = place.first();
    const RowRules rules = rules_of(spec, given.vocab);
    std::vector<Microbatch> batches;
    for (std::int64_t m = 0; m < spec.microbatches(); ++m) {
        batches.push_back(empty_batch(spec));
        batches.back().first_row = sample * spec.seq_length;
        for (std::int64_t row = 0; row < spec.micro_batch_size; ++row, ++sample) {
            if (std::binary_search(given.left_out.begin(), given.left_out.end(), sample)) continue;
            fill_row(batches.back(), row, rules,
                     sampler.sample(static_cast<std::uint64_t>(sample)));
        }
    }
    return batches;
}

std::vector<Microbatch> valid_batches(std::span<const data::Window> windows,
                                      const spec::TrainSpec& spec, const BatchRules& given,
                                      int dp_rank) {
    const RowRules rules = rules_of(spec, given.vocab);
    // Number of rows of a micro-batch, over all data-parallel ranks
    const std::int64_t rows = spec.micro_batch_size * spec.parallel.dp;
    std::vector<Microbatch> batches;
    for (std::int64_t begin = 0; begin < std::ssize(windows); begin += rows) {
        if (spec.data.has_answers()) {
            const auto first = std::min(begin + dp_rank * spec.micro_batch_size,
                                        static_cast<std::int64_t>(std::ssize(windows)));
            const auto count = std::min(spec.micro_batch_size, std::ssize(windows) - first);
            batches.push_back(pair_batch(
                windows.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
                pair_rows(spec, given.vocab, given.references, given.pad)));
            continue;
        }
        batches.push_back(empty_batch(spec));
        for (std::int64_t row = 0; row < spec.micro_batch_size; ++row) {
            const std::int64_t window = begin + dp_rank * spec.micro_batch_size + row;
            if (window < std::ssize(windows))
                fill_row(batches.back(), row, rules, windows[static_cast<std::size_t>(window)]);
        }
    }
    return batches;
}

bool predicts(const data::Window& window, const spec::TrainSpec& spec) {
    const data::Tokens tokens = window.tokens();
    std::vector<std::size_t> starts;
    if (spec.data.documents_apart) starts = window.document_starts();
    for (std::size_t i = 1; i < tokens.size(); ++i) {
        const bool is_read = spec.data.completions && tokens[i] < 0;
        if (!is_read && std::find(starts.begin(), starts.end(), i) == starts.end()) return true;
    }
    return false;
}

std::int64_t predicted_bytes(const std::vector<data::Window>& windows,
                             const tokenizer::Tokenizer& tokenizer) {
    std::int64_t bytes = 0;
    for (const data::Window& window : windows) {
        std::vector<std::uint32_t> ids;
        const data::Tokens tokens = window.tokens();
        for (std::size_t i = 1; i < tokens.size(); ++i)
            if (tokens[i] >= 0) ids.push_back(static_cast<std::uint32_t>(tokens[i]));
        bytes += std::ssize(tokenizer.decode(ids, /*skip_special=*/true));
    }
    return bytes;
}

}  // namespace roll::train
