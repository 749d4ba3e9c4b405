#include <fmt/format.h>

#include "common/check.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

// Returns the event that ends a group. The jobs of a group are submitted after the group, so only
// jobs with higher ids are visited.
Event end_of(const State& state, JobId id, Time now) {
    int all = 0;
    int bad = 0;
    for (auto at = state.jobs.upper_bound(id); at != state.jobs.end(); ++at) {
        if (at->second.spec.into != id) continue;
        ROLL_CHECK(is_over(at->second.phase));
        ++all;
        if (at->second.stopped_by_halving()) continue;
        bad += at->second.phase == JobPhase::Done ? 0 : 1;
    }
    if (bad == 0) return JobEnded{id, JobPhase::Done, 0, "", now};
    return JobEnded{id, JobPhase::Failed, 1,
                    fmt::format("jobs of the group that did not succeed: {} of {}", bad, all), now};
}

}  // namespace

Events end_closed_jobs(const State& state, Time now) {
    Events events;
    for (const JobId id : state.index.closed)
        if (!state.index.inside.contains(id)) events.push_back(end_of(state, id, now));
    return events;
}

}  // namespace roll::core
