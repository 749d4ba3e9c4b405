#include "cli/text/phases.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

namespace roll::cli {

void add_step(PhaseTimes& times, const Json& row) {
    if (!row.contains("phases") || !row["phases"].is_object() || row.value("step", 0) == 1) return;
    ++times.steps;
    times.wall += row.value("wall_s", 0.0);
    for (const auto& [name, seconds] : row["phases"].items()) {
        auto phase = std::ranges::find(times.phases, name, &PhaseTime::name);
        if (phase == times.phases.end()) phase = times.phases.insert(times.phases.end(), {name});
        phase->mean += seconds.value("mean", 0.0);
        phase->longest += seconds.value("max", 0.0);
    }
}

std::vector<PhaseTime> longest_first(const PhaseTimes& times) {
    std::vector<PhaseTime> phases = times.phases;
    std::erase_if(phases, [](const PhaseTime& phase) { return phase.longest == 0; });
    std::ranges::stable_sort(phases, std::greater(), &PhaseTime::mean);
    return phases;
}

std::string phase_shares(const PhaseTimes& times, std::size_t width) {
    const std::vector<PhaseTime> phases = longest_first(times);
    double all = 0;
    for (const PhaseTime& phase : phases) all += phase.mean;
    std::string text;
    for (const PhaseTime& phase : phases) {
        const double percent = 100 * phase.mean / all;
        if (percent < 1) continue;
        const std::string share =
            fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", phase.name, percent);
        if (text.size() + share.size() > width) break;
        text += share;
    }
    return text;
}

}  // namespace roll::cli
