#include "daemon/core/facts/dependency.hpp"

#include <algorithm>

namespace roll::core {

namespace {

Held holds(const AllOf* all) {
    if (all == nullptr) return Held::Yes;
    if (all->failed > 0) return Held::Never;
    return all->left > 0 ? Held::Not : Held::Yes;
}

// Evaluates a condition on a job that is in `phase`.
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

// Returns whether the job succeeded and has an export that dependents may wait for.
bool exports(const Job& job) {
    return job.phase == JobPhase::Done && !job.spec.export_document.empty();
}

}  // namespace

const AllOf* all_of(const Index& index, const spec::After& after) {
    const auto tasks = index.arrays.find(after.job);
    if (tasks == index.arrays.end()) return nullptr;
    return &tasks->second.conditions.at(static_cast<std::size_t>(after.condition));
}

Held holds(const State& state, const spec::After& after, const Index& index) {
    if (after.array) return holds(all_of(index, after));
    const auto job = state.jobs.find(after.job);
    if (job == state.jobs.end()) return Held::Yes;
    const bool waits = after.condition == spec::After::Condition::Exported && exports(job->second);
    if (!waits) return holds(after.condition, job->second.phase);
    if (!job->second.export_job) return Held::Not;
    const auto exporting = state.jobs.find(*job->second.export_job);
    return exporting == state.jobs.end() ? Held::Yes
                                         : holds(after.condition, exporting->second.phase);
}

Held holds_for_task(const State& state, JobId task, spec::After::Condition condition,
                    const Index& index) {
    const Job& job = state.jobs.at(task);
    if (!is_over(job.phase)) return Held::Not;
    if (job.stopped_by_halving()) return Held::Yes;
    return holds(state, {condition, task}, index);
}

JobId awaited(const State& state, const spec::After& after) {
    const auto job = state.jobs.find(after.job);
    const bool waits = after.condition == spec::After::Condition::Exported &&
                       job != state.jobs.end() && exports(job->second);
    return waits ? job->second.export_job.value_or(after.job) : after.job;
}

bool may_change(const State& state, const spec::After& after, const Index& index) {
    return holds(state, after, index) == Held::Not;
}

bool is_open(const State& state, JobId id) {
    const auto job = state.jobs.find(id);
    return job != state.jobs.end() && !is_over(job->second.phase);
}

Held dependencies(const State& state, const Job& job, const Index& index) {
    Held all = Held::Yes;
    for (const spec::After& after : job.spec.after) {
        const Held one = holds(state, after, index);
        if (one == Held::Never) return one;
        if (one == Held::Not) all = one;
    }
    return all;
}

bool lead_to(const State& state, const std::vector<spec::After>& afters, JobId wanted) {
    std::set<JobId> seen;
    std::vector<JobId> left;
    const auto add = [&](const std::vector<spec::After>& more) {
        for (const spec::After& after : more) {
            left.push_back(after.job);
            if (!after.array) continue;
            for (auto task = state.jobs.upper_bound(after.job);
                 task != state.jobs.end() && task->second.array == after.job; ++task)
                left.push_back(task->first);
        }
    };
    add(afters);
    while (!left.empty()) {
        const JobId id = left.back();
        left.pop_back();
        if (id == wanted) return true;
        if (!is_open(state, id) || !seen.insert(id).second) continue;
        add(state.jobs.at(id).spec.after);
        const auto inside = state.index.inside.find(id);
        if (inside != state.index.inside.end())
            left.insert(left.end(), inside->second.begin(), inside->second.end());
    }
    return false;
}

const spec::After* impossible(const State& state, const Job& job) {
    const auto never = [&](const spec::After& after) {
        return holds(state, after, state.index) == Held::Never;
    };
    const auto found = std::ranges::find_if(job.spec.after, never);
    return found == job.spec.after.end() ? nullptr : &*found;
}

}  // namespace roll::core
