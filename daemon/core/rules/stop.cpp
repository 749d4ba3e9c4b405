#include <algorithm>

#include "daemon/core/facts/save_margin.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

// Returns why the current attempt of the job must stop; empty if the attempt may continue.
std::string stop_reason(const Job& job, Time now) {
    const Attempt& attempt = *job.attempt;
    if (job.cancel_requested)
        return "cancelled" + (job.cancel_reason.empty() ? "" : ": " + job.cancel_reason);
    if (attempt.outcome)
        return attempt.reason.empty() ? "the attempt's processes on another node ended"
                                      : attempt.reason;
    return time_is_up(job, now);
}

}  // namespace

std::string time_is_up(const Job& job, Time now) {
    const Attempt& attempt = *job.attempt;
    // Keep the reason of a stop that has begun. The attempt saves a checkpoint as it stops. The
    // duration of this save may change run_limit(), so that the attempt would no longer seem late.
    const bool was_late = attempt.reason == kTimeIsUp || attempt.reason == kDeadline;
    if (attempt.phase == AttemptPhase::Stopping && was_late) return attempt.reason;
    const auto limit = run_limit(job.resources().time, job.save_ms);
    const Time since = attempt.started_at.value_or(attempt.placed_at);
    if (limit.count() > 0 && since + limit <= now) return kTimeIsUp;
    if (job.spec.deadline && *job.spec.deadline < now) return kDeadline;
    return {};
}

Events stop_broken_attempts(const State& state, Time now) {
    Events events;
    for (const JobId id : state.index.running) {
        const Job& job = state.jobs.at(id);
        if (job.attempt->phase == AttemptPhase::Stopping) continue;
        if (std::ranges::all_of(job.attempt->places, &Place::ended)) continue;
        const std::string reason = stop_reason(job, now);
        if (!reason.empty()) events.push_back(AttemptStopping{{id, job.attempt->token}, reason});
    }
    return events;
}

}  // namespace roll::core
