#include "worker/agent/progress.hpp"

#include <algorithm>

namespace roll::agent {
namespace {

constexpr Millis kLearnedLeast{300'000};
constexpr int kLearnedTimes = 10;

std::optional<Instant> newest(const std::vector<RankProgress>& ranks) {
    std::optional<Instant> at;
    for (const RankProgress& rank : ranks) {
        if (rank.at && (!at || *rank.at > *at)) at = rank.at;
    }
    return at;
}

}  // namespace

void note_step(RankProgress& rank, std::int64_t step, std::int64_t steps, std::int64_t own_ms,
               Instant now) {
    if (rank.at) rank.longest = std::max(rank.longest, now - *rank.at);
    rank = {step, steps, own_ms, now, rank.longest};
}

std::optional<Millis> step_bound(const std::vector<RankProgress>& ranks, Millis declared) {
    const bool last = std::ranges::any_of(
        ranks, [](const RankProgress& rank) { return rank.steps > 0 && rank.step >= rank.steps; });
    if (declared.count() == 0 || last) return std::nullopt;
    if (declared.count() > 0) return declared;
    Millis longest{};
    for (const RankProgress& rank : ranks) longest = std::max(longest, rank.longest);
    if (longest.count() == 0) return std::nullopt;  // two steps at least
    return kLearnedTimes * longest + kLearnedLeast;
}

std::string hang_reason(const std::vector<RankProgress>& ranks, Millis declared, Instant now) {
    const auto bound = step_bound(ranks, declared);
    const auto at = newest(ranks);
    if (!bound || !at || now - *at < *bound) return {};
    const auto slowest = std::ranges::min_element(ranks, {}, &RankProgress::step);
    const auto in_seconds = [](Millis time) { return std::to_string(time.count() / 1000) + " s"; };
    return "no step for " + in_seconds(now - *at) + " after step " + std::to_string(slowest->step) +
           " (at most " + in_seconds(*bound) + "); the stacks of its ranks are in their logs";
}

}  // namespace roll::agent
