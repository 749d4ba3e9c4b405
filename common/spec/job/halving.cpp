// Successive halving of sweeps.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "common/spec/job/sweep.hpp"

namespace roll::spec {
namespace {

constexpr std::size_t kRungsMax = 40;

// Returns the number of trials that continue after rung number `rung`. `trials` is the total
// number.
std::size_t kept(std::size_t trials, int reduction, std::size_t rung) {
    const auto divisor = static_cast<std::size_t>(reduction);
    std::size_t left = trials;
    for (std::size_t i = 0; i <= rung && left > 1; ++i) left = (left + divisor - 1) / divisor;
    return std::max<std::size_t>(left, 1);
}

// Returns the cost of a value: a number that is lower for better values.
double cost(const Halving& halving, double value) {
    if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
    return halving.maximize ? -value : value;
}

}  // namespace

std::optional<Halving> halving_of(std::string_view text) {
    if (text.find(R"("halving":)") == std::string_view::npos) return std::nullopt;
    const auto document = parse_json(text);
    if (!document || !document->is_object()) return std::nullopt;
    const Json sweep = document->value("sweep", Json());
    const Json json = sweep.is_object() ? sweep.value("halving", Json()) : Json();
    if (!json.is_object()) return std::nullopt;
    JsonReader reader(json, "sweep.halving");
    Halving halving;
    halving.metric = reader.get_or("metric", halving.metric);
    halving.maximize = reader.get_or<std::string>("mode", "min") == "max";
    halving.reduction = reader.get_or("reduction", halving.reduction);
    halving.min_steps = reader.get_or("min_steps", halving.min_steps);
    if (!reader.finish_lenient() || halving.reduction < 2 || halving.min_steps < 1)
        return std::nullopt;
    return halving;
}

std::vector<std::int64_t> rungs(const Halving& halving, std::size_t trials,
                                std::optional<std::int64_t> steps) {
    constexpr std::int64_t kStepsMax = std::int64_t{1} << 40;
    std::vector<std::int64_t> all;
    const std::int64_t end = std::min(steps.value_or(kStepsMax), kStepsMax);
    for (std::int64_t rung = halving.min_steps; rung < end && all.size() < kRungsMax;
         rung *= halving.reduction) {
        const bool last = kept(trials, halving.reduction, all.size()) == 1;
        all.push_back(rung);
        if (last) break;
    }
    return all;
}

std::vector<Stop> losers(const Halving& halving, const std::vector<std::int64_t>& rungs,
                         const std::vector<RungValues>& trials) {
    std::vector<Stop> stops;
    std::vector<bool> stopped(trials.size(), false);
    for (std::size_t rung = 0; rung < rungs.size(); ++rung) {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < trials.size(); ++i)
            if (rung < trials[i].size() && trials[i][rung]) order.push_back(i);
        std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
            return cost(halving, *trials[a][rung]) < cost(halving, *trials[b][rung]);
        });
        const std::size_t keep = kept(trials.size(), halving.reduction, rung);
        for (std::size_t at = keep; at < order.size(); ++at) {
            if (stopped[order[at]]) continue;
            stopped[order[at]] = true;
            stops.push_back({order[at], rungs[rung], *trials[order[at]][rung], at + 1, keep});
        }
    }
    return stops;
}

std::string reason_text(const Halving& halving, const Stop& stop) {
    return fmt::format(
        "stopped by halving at step {}: {} {:.6g} puts the trial in place {}, but only the best {} "
        "{}",
        stop.rung, halving.metric, stop.value, stop.rank, stop.keep,
        stop.keep == 1 ? "trial continues" : "trials continue");
}

}  // namespace roll::spec
