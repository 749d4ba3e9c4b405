#include <algorithm>

#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

// Why this attempt must stop; empty: it need not.
std::string stop_reason(const Job& job, Time now) {
    const Attempt& attempt = *job.attempt;
    if (job.cancel_requested)
        return "cancelled" + (job.cancel_reason.empty() ? "" : ": " + job.cancel_reason);
    if (attempt.outcome)
        return attempt.reason.empty() ? "a member of the gang ended" : attempt.reason;
    if (time_is_up(job, now)) return kTimeIsUp;
    return {};
}

}  // namespace

bool time_is_up(const Job& job, Time now) {
    const auto limit = job.spec.resources.time;
    const Time since = job.attempt->started_at.value_or(job.attempt->placed_at);
    return limit.count() > 0 && since + limit <= now;
}

Events stop_broken_attempts(const State& state, Time now) {
    Events events;
    for (const auto& [id, job] : state.jobs) {
        if (!job.attempt || job.attempt->phase == AttemptPhase::Stopping) continue;
        if (std::ranges::all_of(job.attempt->places, &Place::ended)) continue;
        const std::string reason = stop_reason(job, now);
        if (!reason.empty()) events.push_back(AttemptStopping{{id, job.attempt->token}, reason});
    }
    return events;
}

}  // namespace roll::core
