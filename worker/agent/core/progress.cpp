#include "worker/agent/core/progress.hpp"

#include <algorithm>

#include "common/json.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::agent {
namespace {

constexpr Millis kLearnedLeast{300'000};
constexpr int kLearnedTimes = 10;
constexpr Millis kStartBound{1'800'000};

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

bool has_stepped(const std::vector<RankProgress>& ranks) { return newest(ranks).has_value(); }

Millis start_bound(std::string_view document) {
    const Json json = Json::parse(document, nullptr, false);
    const Json said = json.is_object() ? json.value("hang_first_step", Json()) : Json();
    if (!said.is_string() || said == "auto") return kStartBound;
    // "never" does not parse as a duration and means no limit
    const auto bound = spec::parse_duration(said.get<std::string>());
    return bound ? Millis(*bound) : Millis{};
}

std::optional<Millis> step_bound(const std::vector<RankProgress>& ranks, const HangRule& rule) {
    const bool last = std::ranges::any_of(
        ranks, [](const RankProgress& rank) { return rank.steps > 0 && rank.step >= rank.steps; });
    if (last) return std::nullopt;
    const bool stepped = has_stepped(ranks);
    Millis longest{};
    for (const RankProgress& rank : ranks) longest = std::max(longest, rank.longest);
    if (stepped && rule.step.count() >= 0)
        return rule.step.count() == 0 ? std::nullopt : std::optional(rule.step);
    if (stepped && longest.count() > 0) return kLearnedTimes * longest + kLearnedLeast;
    return rule.start.count() == 0 ? std::nullopt : std::optional(rule.start);
}

std::string hang_reason(const std::vector<RankProgress>& ranks, const HangRule& rule, Instant alive,
                        Instant now) {
    const auto bound = step_bound(ranks, rule);
    const auto stepped = newest(ranks);
    const Instant at = stepped.value_or(alive);
    if (ranks.empty() || !bound || now - at < *bound) return {};
    const auto slowest = std::ranges::min_element(ranks, {}, &RankProgress::step);
    const auto in_seconds = [](Millis time) { return std::to_string(time.count() / 1000) + " s"; };
    return (stepped ? "no step for " : "no first step or other activity for ") +
           in_seconds(now - at) + (stepped ? " after step " + std::to_string(slowest->step) : "") +
           " (at most " + in_seconds(*bound) +
           "); the logs of the ranks contain the stacks of all threads";
}

std::string skipped_text(const std::string& report) {
    const Json told = Json::parse(report, nullptr, false);
    if (!told.is_object()) return {};
    const auto count = [&](const char* key) {
        const Json value = told.value(key, Json());
        return value.is_number_integer() && value > 0 ? value.dump() : std::string();
    };
    const std::string skipped = count("skipped_steps"), step = count("step");
    const std::string left_out = count("left_out_samples");
    std::string text;
    if (!skipped.empty())
        text = skipped + (step.empty() ? "" : " of " + step) +
               (skipped == "1" && step.empty() ? " step was skipped" : " steps were skipped");
    if (!left_out.empty())
        text += (text.empty() ? "" : ", ") + left_out +
                (left_out == "1" ? " sample was left out" : " samples were left out");
    return text;
}

}  // namespace roll::agent
