#include "daemon/core/facts/lookups.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/facts/dependency.hpp"

namespace roll::core {

Time ended_at(const State& state, JobId id) {
    const auto job = state.jobs.find(id);
    return job == state.jobs.end() ? Time{} : job->second.ended_at.value_or(Time{});
}

Time due_at(const Job& job) { return std::max(job.not_before, job.spec.begin.value_or(Time{})); }

Time ready_since(const State& state, const Job& job, const Index& index) {
    Time since = std::max(job.submitted_at, job.spec.begin.value_or(Time{}));
    if (!job.past.empty())
        since = std::max(since, std::max(job.not_before, job.past.back().ended_at));
    for (const spec::After& after : job.spec.after) {
        const AllOf* all = after.array ? all_of(index, after) : nullptr;
        since = std::max(since, all ? all->met : ended_at(state, awaited(state, after)));
    }
    return since;
}

std::vector<JobId> tasks_at(const State& state, JobId id) {
    std::vector<JobId> tasks;
    const Job& job = state.jobs.at(id);
    if (job.spec.array) tasks.push_back(id);
    const auto source =
        job.spec.source_job ? state.jobs.find(*job.spec.source_job) : state.jobs.end();
    const bool exports = source != state.jobs.end() && source->second.export_job == id;
    if (exports && source->second.spec.array) tasks.push_back(source->first);
    return tasks;
}

const std::set<JobId>& jobs_on(const State& state, WorkerId worker) {
    static const std::set<JobId> kNone;
    const auto found = state.index.by_worker.find(worker);
    return found == state.index.by_worker.end() ? kNone : found->second;
}

bool is_busy(const State& state, WorkerId worker) {
    return std::ranges::any_of(jobs_on(state, worker), [&](JobId id) {
        const Place* place = state.jobs.at(id).attempt->place_on(worker);
        ROLL_CHECK(place != nullptr);
        return !place->ended;
    });
}

}  // namespace roll::core
