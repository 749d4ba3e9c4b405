#include "worker/train/job/validation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "common/counted.hpp"
#include "worker/train/data/corpus/ngram.hpp"
#include "worker/train/data/text_options.hpp"
#include "worker/train/model/context.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/report/pair_report.hpp"

namespace roll::train {

Validation::Validation(const spec::TrainSpec& spec, const data::Corpus& train,
                       const std::vector<data::Corpus>& files) {
    const auto add = [&](const std::string& name, const data::Corpus& corpus) {
        std::vector<data::Window> windows = data::valid_windows(corpus, row_rules(spec));
        const auto own = spec.valid_intervals.find(name);
        if (windows.empty()) return;
        sets_.push_back({.name = name,
                         .tracked = name == spec.data.track,
                         .interval = own == spec.valid_intervals.end()
                                         ? spec::Interval{.steps = spec.valid_every}
                                         : own->second,
                         .windows = std::move(windows)});
    };
    add(spec.data.valid_name, train);
    for (std::size_t i = 0; i < files.size(); ++i) add(spec.data.valid_files[i].name, files[i]);
    std::stable_partition(sets_.begin(), sets_.end(),
                          [](const ValidSet& set) { return set.tracked; });
    if (!sets_.empty()) sets_.front().tracked = true;
    const auto is_silent = [&](const data::Window& window) {
        return targets_of(window, spec) == 0;
    };
    for (const ValidSet& set : sets_)
        if (std::all_of(set.windows.begin(), set.windows.end(), is_silent))
            throw RankFailure(2, "data.valid: of " +
                                     counted(set.windows.size(), "validation window") +
                                     (set.name.empty() ? "" : " of " + set.name) +
                                     ", none has a token to predict; hold out more text, or raise "
                                     "train.seq_length");
}

std::vector<std::string> Validation::names() const {
    std::vector<std::string> names;
    for (const ValidSet& set : sets_) names.push_back(set.name);
    return names;
}

std::vector<std::string> Validation::metrics(const spec::TrainSpec& spec, bool is_bytes) const {
    std::vector<std::string> keys{"valid_loss"};
    for (const char* const key : objective_keys(spec)) keys.push_back(std::string("valid_") + key);
    const bool of_tokens = spec.objective != spec::Objective::Preference;
    if (of_tokens) keys.insert(keys.end(), {"valid_perplexity", "valid_bits_per_byte"});
    if (of_tokens && is_bytes) keys.push_back("ngram2_bits_per_byte");
    std::vector<std::string> all;
    for (const ValidSet& set : sets_)
        for (const std::string& key : keys) {
            if (set.tracked) all.push_back(key);
            if (!set.name.empty()) all.push_back(key + "/" + set.name);
        }
    return all;
}

std::vector<data::Window> Validation::windows() const {
    std::vector<data::Window> windows;
    for (const ValidSet& set : sets_)
        windows.insert(windows.end(), set.windows.begin(), set.windows.end());
    return windows;
}

std::vector<const ValidSet*> Validation::due(const Moment& m) const {
    std::vector<const ValidSet*> found;
    for (const ValidSet& set : sets_) {
        const auto& [steps, tokens] = set.interval;
        const bool at_step = steps > 0 && m.step % steps == 0;
        const bool at_token = tokens > 0 && m.tokens / tokens > m.tokens_before / tokens;
        if (at_step || at_token || m.last) found.push_back(&set);
    }
    return found;
}

namespace {

// Number of micro-batches that are evaluated at a time, so that a larger set needs no more memory.
constexpr std::int64_t kMicrobatches = 16;

// Returns the sums over the windows. Calls `ends` before each part of the windows; returns nullopt
// if a call returns true.
std::optional<LossSum> evaluate(std::span<const data::Window> windows, TrainStep& step,
                                const spec::TrainSpec& spec, const BatchRules& rules, int dp_rank,
                                const std::function<bool()>& ends) {
    const auto most =
        static_cast<std::size_t>(kMicrobatches * spec.micro_batch_size * spec.parallel.dp);
    std::vector<std::span<const data::Window>> parts;
    for (; !windows.empty(); windows = windows.subspan(parts.back().size()))
        parts.push_back(windows.first(std::min(most, windows.size())));
    // First estimate the divergence from the reference model, over the whole set. The loss then
    // does not depend on how the set is divided into parts.
    KlSum divergence;
    for (const auto part : parts) {
        if (!spec.preference.estimates_kl()) break;
        if (ends()) return std::nullopt;
        const KlSum added = step.kl_sum(valid_batches(part, spec, rules, dp_rank));
        divergence.sum += added.sum;
        divergence.answers += added.answers;
    }
    LossSum sum;
    for (const auto part : parts) {
        if (ends()) return std::nullopt;
        const std::vector<Microbatch> batch = valid_batches(part, spec, rules, dp_rank);
        const LossSum added =
            step.evaluate(context_parts(batch, step.groups().cp), divergence.kl());
        sum.loss += added.loss;
        sum.tokens += added.tokens;
        if (added.divergence) sum.divergence = sum.divergence.value_or(0) + *added.divergence;
        if (!added.pairs) continue;
        if (!sum.pairs) sum.pairs.emplace();
        *sum.pairs += *added.pairs;
    }
    return sum;
}

}  // namespace

std::optional<std::vector<ValidResult>> Validation::run(const std::vector<const ValidSet*>& sets,
                                                        TrainStep& step,
                                                        const spec::TrainSpec& spec,
                                                        const BatchRules& rules, int dp_rank,
                                                        const std::function<bool()>& ends) const {
    std::vector<ValidResult> results;
    for (const ValidSet* set : sets) {
        const auto found = evaluate(set->windows, step, spec, rules, dp_rank, ends);
        if (!found) return std::nullopt;
        const LossSum& sum = *found;
        ValidResult result{.name = set->name,
                           .tracked = set->tracked,
                           .loss = sum.loss / static_cast<double>(sum.tokens),
                           .tokens = sum.tokens};
        if (sum.divergence) result.divergence = *sum.divergence / static_cast<double>(sum.tokens);
        if (sum.pairs) {
            result.loss = mean_loss(spec.preference, *sum.pairs);
            result.pairs = sum.pairs;
        } else if (set->bytes > 0)
            result.bits_per_byte = sum.loss / std::numbers::ln2 / static_cast<double>(set->bytes);
        result.ngram_bits = set->ngram_bits;
        results.push_back(std::move(result));
    }
    return results;
}

void Validation::measure_text(const tokenizer::Tokenizer& tokenizer, const data::Corpus& train) {
    if (measured_) return;
    measured_ = true;
    if (train.cut() == data::Cut::BetweenPairs) return;  // a loss of pairs is not a loss per token
    std::optional<data::NgramModel> baseline;
    for (ValidSet& set : sets_) {
        set.bytes = predicted_bytes(set.windows, tokenizer);
        if (!train.is_bytes() || !data::are_bytes(set.windows)) continue;
        if (!baseline) baseline.emplace(train);
        set.ngram_bits = data::valid_bits_per_byte(*baseline, set.windows);
    }
}

OrderedJson valid_row(std::int64_t step, const std::vector<ValidResult>& results) {
    OrderedJson row = {{"step", step}};
    const auto put = [&](const ValidResult& result, const std::string& suffix) {
        row["valid_loss" + suffix] = result.loss;
        if (result.pairs)
            put_pairs(row, "valid_", suffix, *result.pairs);
        else
            row["valid_perplexity" + suffix] = std::exp(result.loss);
        if (result.divergence)
            row[std::string("valid_").append(kTeacherKeys[0]).append(suffix)] = *result.divergence;
        if (result.bits_per_byte) row["valid_bits_per_byte" + suffix] = *result.bits_per_byte;
        row["valid_tokens" + suffix] = result.tokens;
        if (result.ngram_bits) row["ngram2_bits_per_byte" + suffix] = *result.ngram_bits;
    };
    for (const ValidResult& result : results)
        if (result.tracked) put(result, "");
    for (const ValidResult& result : results)
        if (!result.name.empty()) put(result, "/" + result.name);
    return row;
}

std::string valid_text(std::int64_t step, const std::vector<ValidResult>& results) {
    std::string text;
    for (const ValidResult& result : results) {
        char line[256];
        std::snprintf(line, sizeof line, "%sstep %lld  held-out%s%s: loss %.4f",
                      text.empty() ? "" : "\n", static_cast<long long>(step),
                      result.name.empty() ? "" : " ", result.name.c_str(), result.loss);
        text += line;
        if (result.pairs) {
            text += ", " + pairs_text(*result.pairs);
            continue;
        }
        std::snprintf(line, sizeof line, ", perplexity %.4g", std::exp(result.loss));
        text += line;
        if (result.divergence) {
            std::snprintf(line, sizeof line, ", teacher kl %.4f", *result.divergence);
            text += line;
        }
        if (result.bits_per_byte) {
            std::snprintf(line, sizeof line, ", %.4f bits per byte", *result.bits_per_byte);
            text += line;
        }
        if (result.ngram_bits) {
            std::snprintf(line, sizeof line, " (order-2 n-gram: %.4f)", *result.ngram_bits);
            text += line;
        }
    }
    return text;
}

}  // namespace roll::train
