#include "common/spec/train/batch_size.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "common/split.hpp"

namespace roll::spec {
namespace {

constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();

// Parses a whole number with one of the suffixes K, M, B and T; nullopt if the text has another
// form or the number is too large.
std::optional<std::int64_t> parse_count(std::string_view text) {
    std::int64_t factor = 1, number = 0;
    constexpr std::string_view kSuffixes = "KMBT";
    if (!text.empty() && kSuffixes.find(text.back()) != std::string_view::npos) {
        for (std::size_t i = 0; i <= kSuffixes.find(text.back()); ++i) factor *= 1000;
        text.remove_suffix(1);
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
    if (number > kNoEnd / factor) return std::nullopt;
    return number * factor;
}

// Returns the number of samples after which the phase begins.
std::int64_t samples_of(const BatchPhase& phase, std::int64_t seq_length) {
    return phase.tokens / seq_length + (phase.tokens % seq_length != 0 ? 1 : 0);
}

// Returns the index of the phase of the step that begins after `samples` samples.
std::size_t phase_at(const BatchSizes& sizes, std::int64_t samples) {
    std::size_t phase = 0;
    while (phase + 1 < sizes.phases.size() &&
           samples >= samples_of(sizes.phases[phase + 1], sizes.seq_length))
        ++phase;
    return phase;
}

// Returns the number of samples at which the phase after `phase` begins.
std::int64_t end_of(const BatchSizes& sizes, std::size_t phase) {
    return phase + 1 < sizes.phases.size() ? samples_of(sizes.phases[phase + 1], sizes.seq_length)
                                           : kNoEnd;
}

}  // namespace

Result<std::vector<BatchPhase>> parse_batch_schedule(std::string_view text) {
    const auto refuse = [&](const std::string& why) {
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("\"{}\" {}; allowed: pairs TOKENS:SIZE, where TOKENS begins at 0 and "
                        "increases, such as \"0:768 250B:1536\"",
                        text, why));
    };
    std::vector<BatchPhase> phases;
    for (const std::string& pair : words_at(text, ' ')) {
        const std::size_t colon = pair.find(':');
        if (colon == std::string_view::npos) return refuse(fmt::format("has \"{}\"", pair));
        const auto tokens = parse_count(pair.substr(0, colon));
        const auto size = parse_count(pair.substr(colon + 1));
        if (!tokens || !size || *size < 1) return refuse(fmt::format("has \"{}\"", pair));
        if (!phases.empty() && *tokens <= phases.back().tokens)
            return refuse(fmt::format("has {} tokens after {}", *tokens, phases.back().tokens));
        phases.push_back({*tokens, *size});
    }
    if (text.empty()) return phases;
    if (phases.empty() || phases.front().tokens != 0) return refuse("does not begin at 0 tokens");
    return phases;
}

std::int64_t batch_size_at(const BatchSizes& sizes, std::int64_t samples) {
    if (sizes.phases.empty()) return sizes.size;
    return sizes.phases[phase_at(sizes, samples)].size;
}

std::int64_t samples_before(const BatchSizes& sizes, std::int64_t step) {
    if (sizes.phases.empty()) return step * sizes.size;
    std::int64_t samples = 0;
    for (std::size_t phase = 0; step > 0;) {
        const std::int64_t size = sizes.phases[phase].size, left = end_of(sizes, phase);
        const std::int64_t steps = left == kNoEnd ? step : (left - samples + size - 1) / size;
        const std::int64_t taken = std::min(step, steps);
        samples += taken * size;
        step -= taken;
        phase = phase_at(sizes, samples);
    }
    return samples;
}

std::int64_t steps_for(const BatchSizes& sizes, std::int64_t done, std::int64_t wanted) {
    std::int64_t steps = 0;
    for (std::int64_t samples = done; samples < wanted;) {
        const std::int64_t size = batch_size_at(sizes, samples);
        const std::int64_t end =
            sizes.phases.empty() ? kNoEnd : end_of(sizes, phase_at(sizes, samples));
        const std::int64_t taken = (std::min(end, wanted) - samples + size - 1) / size;
        samples += taken * size;
        steps += taken;
    }
    return steps;
}

}  // namespace roll::spec
