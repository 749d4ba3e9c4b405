#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

enum class Held { Not, Yes, Never };

// The phases of jobs that this very turn ends, over those in State.
using Ended = std::map<JobId, JobPhase>;

Held holds(const State& state, const Ended& ended, const spec::After& after) {
    const auto now_ended = ended.find(after.job);
    const JobPhase phase =
        now_ended == ended.end() ? state.jobs.at(after.job).phase : now_ended->second;
    if (!is_over(phase)) return Held::Not;
    const bool ok = phase == JobPhase::Done;
    switch (after.condition) {
        case spec::After::Condition::Ok: return ok ? Held::Yes : Held::Never;
        case spec::After::Condition::Failed: return ok ? Held::Never : Held::Yes;
        case spec::After::Condition::Any: return Held::Yes;
    }
    return Held::Never;
}

std::string hopeless(const spec::After& after) {
    const std::string job = "job " + std::to_string(after.job.value);
    if (after.condition == spec::After::Condition::Failed)
        return job + " ended well, and this job waits for its failure";
    return job + " did not end well, and this job waits for that";
}

}  // namespace

bool dependencies_hold(const State& state, const Job& job) {
    for (const spec::After& after : job.spec.after) {
        if (holds(state, {}, after) != Held::Yes) return false;
    }
    return true;
}

Events end_hopeless_jobs(const State& state, Time now) {
    constexpr int kExitCancelled = 130;
    Events events;
    Ended ended;  // a job's dependencies have smaller ids, so one pass sees whole chains
    const auto cancel = [&](JobId id, const std::string& reason) {
        events.push_back(JobEnded{id, JobPhase::Cancelled, kExitCancelled, reason, now});
        ended[id] = JobPhase::Cancelled;
    };
    for (const auto& [id, job] : state.jobs) {
        if (job.phase != JobPhase::Queued) continue;
        if (job.cancel_requested) {
            cancel(id, job.cancel_reason);
            continue;
        }
        for (const spec::After& after : job.spec.after) {
            if (holds(state, ended, after) != Held::Never) continue;
            cancel(id, hopeless(after));
            break;
        }
    }
    return events;
}

}  // namespace roll::core
