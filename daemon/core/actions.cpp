#include <algorithm>

#include "daemon/core/core.hpp"

namespace roll::core {
namespace {

Action owed(AttemptPhase phase, const Place& place, const AttemptKey& key) {
    if (phase == AttemptPhase::Stopping) return StopMember{place.worker, key};
    if (place.up) return KeepMember{place.worker, key};
    return StartMember{place.worker, key};
}

void earliest(std::optional<Time>& wakeup, Time at, Time now) {
    if (at > now && (!wakeup || at < *wakeup)) wakeup = at;
}

}  // namespace

std::vector<Action> actions(const State& state) {
    std::vector<Action> all;
    for (const auto& [id, job] : state.jobs) {
        if (!job.attempt) continue;
        for (const Place& place : job.attempt->places) {
            if (place.ended || !state.workers.contains(place.worker)) continue;
            all.push_back(owed(job.attempt->phase, place, {id, job.attempt->token}));
        }
    }
    return all;
}

std::optional<Time> next_wakeup(const State& state, Time now) {
    std::optional<Time> wakeup;
    for (const auto& [id, job] : state.jobs) {
        if (job.phase == JobPhase::Queued) earliest(wakeup, job.not_before, now);
        const auto limit = job.spec.resources.time;
        if (job.attempt && limit.count() > 0)
            earliest(wakeup, job.attempt->started_at.value_or(job.attempt->placed_at) + limit, now);
    }
    return wakeup;
}

}  // namespace roll::core
