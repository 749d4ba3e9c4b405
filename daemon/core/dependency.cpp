#include "daemon/core/dependency.hpp"

#include <algorithm>

namespace roll::core {

namespace {

// Of a condition on a job in this phase.
Held holds(spec::After::Condition condition, JobPhase phase) {
    if (!is_over(phase)) return Held::Not;
    const bool ok = phase == JobPhase::Done;
    switch (condition) {
        case spec::After::Condition::Exported:
        case spec::After::Condition::Ok: return ok ? Held::Yes : Held::Never;
        case spec::After::Condition::Failed: return ok ? Held::Never : Held::Yes;
        case spec::After::Condition::Any: return Held::Yes;
    }
    return Held::Never;
}

// What its end has left to export, the job that does it included.
bool exports(const Job& job) {
    return job.phase == JobPhase::Done && !job.spec.export_document.empty();
}

}  // namespace

Held holds(const State& state, const spec::After& after) {
    const auto job = state.jobs.find(after.job);
    if (job == state.jobs.end()) return Held::Yes;
    const bool waits = after.condition == spec::After::Condition::Exported && exports(job->second);
    if (!waits) return holds(after.condition, job->second.phase);
    if (!job->second.export_job) return Held::Not;
    const auto exporting = state.jobs.find(*job->second.export_job);
    return exporting == state.jobs.end() ? Held::Yes
                                         : holds(after.condition, exporting->second.phase);
}

JobId awaited(const State& state, const spec::After& after) {
    const auto job = state.jobs.find(after.job);
    const bool waits = after.condition == spec::After::Condition::Exported &&
                       job != state.jobs.end() && exports(job->second);
    return waits ? job->second.export_job.value_or(after.job) : after.job;
}

bool may_change(const State& state, const spec::After& after) {
    return is_open(state, after.job) || holds(state, after) == Held::Not;
}

bool is_open(const State& state, JobId id) {
    const auto job = state.jobs.find(id);
    return job != state.jobs.end() && !is_over(job->second.phase);
}

Held dependencies(const State& state, const Job& job) {
    Held all = Held::Yes;
    for (const spec::After& after : job.spec.after) {
        const Held one = holds(state, after);
        if (one == Held::Never) return one;
        if (one == Held::Not) all = one;
    }
    return all;
}

const spec::After* impossible(const State& state, const Job& job) {
    const auto never = [&](const spec::After& after) { return holds(state, after) == Held::Never; };
    const auto found = std::ranges::find_if(job.spec.after, never);
    return found == job.spec.after.end() ? nullptr : &*found;
}

}  // namespace roll::core
