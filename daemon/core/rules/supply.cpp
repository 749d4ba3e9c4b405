#include <set>

#include "daemon/core/allocation/planner.hpp"
#include "daemon/core/facts/dependency.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

// An idle allocation is kept for a job that may start within this time. A job's back-off is always
// shorter, so a job that is retried finds its allocation again.
constexpr auto kSoon = std::chrono::minutes(5);

// Returns the allocations in which some attempt holds resources.
std::set<AllocationId> held_allocations(const State& state) {
    std::set<AllocationId> held;
    for (const auto& [id, jobs] : state.index.by_worker) {
        const auto worker = state.workers.find(id);
        if (worker != state.workers.end()) held.insert(worker->second.allocation);
    }
    return held;
}

// Returns why an allocation that no waiting job needs must be released now; empty if the allocation
// stays.
std::string idle_reason(const State& state, const Allocation& a, bool held, Time now) {
    if (a.closed) return held ? "" : "the allocation was closed by a user";
    if (a.phase != AllocationPhase::Granted) return "no job needs the allocation any more";
    const auto idle = state.queues.at(a.queue).spec.idle;
    if (a.used_at + idle > now || held) return {};
    return "idle for " + std::to_string(idle.count()) + " s";
}

}  // namespace

Events match_supply(const State& state, Time now) {
    if (state.queues.empty()) return {};
    OrderQuota quotas;
    Planner planner = plan_ready_jobs(state, now, quotas);
    for (const auto& [at, id] : state.index.sleeping) {
        if (state.stopped || at > now + kSoon) break;
        const Job& job = state.jobs.at(id);
        const bool comes = !job.held && job.spec.cron.empty();
        if (!comes || dependencies(state, job, state.index) != Held::Yes) continue;
        for (int i = 0; i < job.spec.shapes() && !planner.serve(job.spec.shape(i), false);) ++i;
    }
    Events events;
    const std::set<AllocationId> held = held_allocations(state);
    for (const auto& [id, a] : state.allocations) {
        if (a.releasing || planner.needs(id)) continue;
        const std::string reason = idle_reason(state, a, held.contains(id), now);
        if (!reason.empty()) events.push_back(AllocationReleasing{id, false, reason});
    }
    for (Event& event : planner.orders()) events.push_back(std::move(event));
    return events;
}

}  // namespace roll::core
