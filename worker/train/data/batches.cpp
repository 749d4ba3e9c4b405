#include "worker/train/data/batches.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "worker/plan/cost.hpp"
#include "worker/train/data/sample_parts.hpp"
#include "worker/train/data/token_check.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

// Returns a micro-batch of `rows` rows, at least one, whose targets are ignored.
Microbatch empty_batch(const spec::TrainSpec& spec, std::int64_t rows, const BatchRules& rules) {
    rows = std::max<std::int64_t>(rows, 1);
    const std::int64_t sizes_BT[] = {rows, spec.seq_length};
    Microbatch batch{at::zeros(sizes_BT, at::kLong), at::full(sizes_BT, ops::kIgnored, at::kLong)};
    for (std::int64_t row = 0; spec.data.documents_apart && row < rows; ++row)
        batch.segments.push_back(row * spec.seq_length);
    if (rules.teacher != nullptr) {
        const std::int64_t sizes_MK[] = {rows * spec.seq_length, rules.teacher->top_k()};
        batch.teacher = {at::zeros(sizes_MK, at::kLong), at::zeros(sizes_MK, at::kDouble)};
    }
    return batch;
}

struct RowRules {
    std::int64_t vocab = 0;
    bool documents_apart = false;
    bool completions = false;  // true: a negative token is context only, and is stored as ~id
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

// Fills one row of the micro-batch from a window, and adds the teacher's values.
void fill(Microbatch& batch, std::int64_t row, const data::Window& window,
          const spec::TrainSpec& spec, const BatchRules& rules) {
    fill_row(batch, row, rules_of(spec, rules.vocab), window);
    if (rules.teacher != nullptr)
        rules.teacher->copy(teacher_key(window, spec), batch.targets_BT[row], row * spec.seq_length,
                            batch.teacher);
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

// Returns the lengths that the sequences of a sample have in a micro-batch.
std::vector<std::int64_t> sample_lengths(const data::Window& window, const spec::TrainSpec& spec) {
    const auto size = static_cast<std::int64_t>(window.size);
    if (!spec.data.documents_apart) return {spec.seq_length};
    std::vector<std::int64_t> lengths;
    std::int64_t begin = 0;
    for (const std::size_t start : window.document_starts()) {
        lengths.push_back(static_cast<std::int64_t>(start) - begin);
        begin = static_cast<std::int64_t>(start);
    }
    if (!spec.data.has_answers()) {
        lengths.push_back(spec.seq_length - begin);
        return lengths;
    }
    const std::int64_t margin = spec.data.margin_field.empty() ? 0 : data::kMarginTokens;
    if (spec.data.pairs) lengths.push_back(size - begin - margin);
    for (std::int64_t& length : lengths)
        length = std::clamp(length - 1, std::int64_t{1}, spec.seq_length);
    return lengths;
}

SampleSize size_of(const data::Window& window, const spec::TrainSpec& spec,
                   const BatchRules& rules) {
    const std::vector<std::int64_t> lengths = sample_lengths(window, spec);
    SampleSize size;
    for (const std::int64_t length : lengths) size.tokens += length;
    if (rules.config != nullptr)
        size.cost =
            plan::flops_per_token(*rules.config, lengths).causal * static_cast<double>(size.tokens);
    return size;
}

// For each micro-batch of this rank, returns the indices of its samples.
ReplicaPart own_part(const data::Sampler& sampler, const StepPlace& place,
                     const BatchRules& given) {
    const spec::TrainSpec& spec = place.spec;
    const spec::ParallelSpec& p = spec.parallel;
    std::vector<SampleSize> sizes;
    if (spec.balance || given.tokens_most > 0)
        for (std::int64_t i = 0; i < spec.global_batch_size; ++i)
            sizes.push_back(size_of(sampler.sample(static_cast<std::uint64_t>(place.samples + i)),
                                    spec, given));
    const PartRules rules{.replicas = p.dp,
                          .microbatches = spec.microbatches(),
                          .micro_batch_size = spec.micro_batch_size,
                          .balance = spec.balance,
                          .tokens_most = given.tokens_most,
                          .multiple = p.vpp > 1 ? std::max(p.group, p.pp) : 1};
    ReplicaPart part = parts_of_batch(rules, sizes)[static_cast<std::size_t>(place.dp_rank)];
    for (std::vector<std::int64_t>& samples : part)
        for (std::int64_t& sample : samples) sample += place.samples;
    return part;
}

// Returns the micro-batch of pairs or labelled answers with these windows.
Microbatch answers_of(const std::vector<data::Window>& windows, const spec::TrainSpec& spec,
                      const BatchRules& rules) {
    return pair_batch(windows, pair_rows(spec, rules.vocab, rules.references, rules.pad));
}

}  // namespace

std::vector<Microbatch> step_batches(const data::Sampler& sampler, const StepPlace& place,
                                     const BatchRules& given) {
    const spec::TrainSpec& spec = place.spec;
    const std::int64_t rows_of_sample = spec.sequences_per_sample() * spec.seq_length;
    std::vector<Microbatch> batches;
    for (std::vector<std::int64_t>& samples : own_part(sampler, place, given)) {
        std::vector<data::Window> windows;
        Microbatch batch;
        if (!spec.data.has_answers()) batch = empty_batch(spec, std::ssize(samples), given);
        for (std::size_t row = 0; row < samples.size(); ++row) {
            if (std::ranges::binary_search(given.left_out, samples[row])) continue;
            const data::Window window = sampler.sample(static_cast<std::uint64_t>(samples[row]));
            if (spec.data.has_answers())
                windows.push_back(window);
            else
                fill(batch, static_cast<std::int64_t>(row), window, spec, given);
        }
        if (spec.data.has_answers()) batch = answers_of(windows, spec, given);
        if (!samples.empty()) batch.first_row = samples.front() * rows_of_sample;
        batch.samples = std::move(samples);
        batches.push_back(std::move(batch));
    }
    return batches;
}

std::vector<Microbatch> valid_batches(std::span<const data::Window> windows,
                                      const spec::TrainSpec& spec, const BatchRules& given,
                                      int dp_rank) {
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
        batches.push_back(empty_batch(spec, spec.micro_batch_size, given));
        for (std::int64_t row = 0; row < spec.micro_batch_size; ++row) {
            const std::int64_t window = begin + dp_rank * spec.micro_batch_size + row;
            if (window < std::ssize(windows))
                fill(batches.back(), row, windows[static_cast<std::size_t>(window)], spec, given);
        }
    }
    return batches;
}

std::int64_t targets_of(const data::Window& window, const spec::TrainSpec& spec) {
    const data::Tokens tokens = window.tokens();
    std::vector<std::size_t> starts;
    if (spec.data.documents_apart) starts = window.document_starts();
    std::int64_t count = 0;
    for (std::size_t i = 1; i < tokens.size(); ++i) {
        const bool is_read = spec.data.completions && tokens[i] < 0;
        if (!is_read && std::find(starts.begin(), starts.end(), i) == starts.end()) ++count;
    }
    return count;
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
