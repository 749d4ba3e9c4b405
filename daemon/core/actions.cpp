#include "daemon/core/actions.hpp"

#include <set>

#include "daemon/core/facts/lookups.hpp"

namespace roll::core {
namespace {

// Returns the action that the worker of a gang member must carry out. Does not repeat start orders
// after a take-over, because the previous rolld may have given the job to another worker.
Action owed(const State& state, AttemptPhase phase, const Place& place, const AttemptKey& key) {
    if (phase == AttemptPhase::Stopping) return StopMember{place.worker, key};
    if (place.up || state.adopting) return KeepMember{place.worker, key};
    return StartMember{place.worker, key};
}

}  // namespace

std::vector<Action> actions(const State& state) {
    std::vector<Action> all;
    for (const JobId id : state.index.running) {
        const Job& job = state.jobs.at(id);
        for (const Place& place : job.attempt->places) {
            if (place.ended || !state.workers.contains(place.worker)) continue;
            all.push_back(owed(state, job.attempt->phase, place, {id, job.attempt->token}));
        }
    }
    return all;
}

// Returns the Slurm operation that each allocation requires. Cancels an unwanted request even if
// sbatch has not answered yet, because Slurm may have received the request.
std::vector<SlurmAction> slurm_actions(const State& s) {
    std::set<AllocationId> busy;
    for (const auto& [worker, jobs] : s.index.by_worker) {
        const auto found = s.workers.find(worker);
        if (found == s.workers.end()) continue;
        const auto a = s.allocations.find(found->second.allocation);
        if (a != s.allocations.end() && a->second.releasing && is_busy(s, worker))
            busy.insert(found->second.allocation);
    }
    std::vector<SlurmAction> all;
    for (const auto& [id, a] : s.allocations) {
        if (a.releasing && !busy.contains(id))
            all.push_back(GiveBackAllocation{id});
        else if (a.phase == AllocationPhase::Ordered && !a.releasing)
            all.push_back(OrderAllocation{id});
        else
            all.push_back(WatchAllocation{id});
    }
    return all;
}

}  // namespace roll::core
