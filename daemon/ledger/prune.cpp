#include "daemon/ledger/prune.hpp"

#include <map>
#include <vector>

namespace roll::ledger {
namespace {

// Returns a map from each job to the jobs that must be kept if this job is kept. For example, the
// first job of an array keeps all jobs of the array.
std::map<JobId, std::vector<JobId>> references(const core::State& state) {
    std::map<JobId, std::vector<JobId>> kept_by;
    for (const auto& [id, job] : state.jobs) {
        for (const spec::After& after : job.spec.after) kept_by[id].push_back(after.job);
        if (job.array != JobId{} && job.array != id) kept_by[job.array].push_back(id);
        // If a group is kept, its jobs are kept, because the group's result depends on its jobs'
        // results.
        if (job.spec.into) kept_by[*job.spec.into].push_back(id);
        if (job.spec.source_job) kept_by[id].push_back(*job.spec.source_job);
        if (job.cron_last != JobId{}) kept_by[job.cron_last].push_back(id);
        if (!job.export_job) continue;
        kept_by[id].push_back(*job.export_job);
        kept_by[*job.export_job].push_back(id);
    }
    return kept_by;
}

}  // namespace

std::set<JobId> forgettable(const core::State& state, Time cutoff) {
    std::set<JobId> forgotten;
    std::vector<JobId> staying;
    for (const auto& [id, job] : state.jobs) {
        const bool old = core::is_over(job.phase) && job.ended_at && *job.ended_at < cutoff;
        if (old && id != state.jobs.rbegin()->first)
            forgotten.insert(id);
        else
            staying.push_back(id);
    }
    const auto kept_by = references(state);
    while (!staying.empty()) {
        const auto found = kept_by.find(staying.back());
        staying.pop_back();
        if (found == kept_by.end()) continue;
        for (const JobId id : found->second) {
            if (forgotten.erase(id) > 0) staying.push_back(id);
        }
    }
    return forgotten;
}

core::Events carried_uses(const core::State& state) {
    core::Events events;
    for (const auto& [user, use] : state.use)
        events.push_back(
            core::UseCarried{user.first, user.second, use.gpu_ms, use.decayed, use.at});
    return events;
}

}  // namespace roll::ledger
