#include <algorithm>

#include "daemon/core/allocation/allocations.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

constexpr int kFailuresMax = 5;

// Returns why this allocation must be released even if jobs wait for it; empty if the allocation
// may stay.
std::string end_reason(const State& state, const Allocation& a, Time leaves, Time now) {
    const AllocationQueue& queue = state.queues.at(a.queue);
    if (queue.removing) return "the allocation's queue is being removed";
    const bool was_granted = a.granted_at != Time{};
    if (a.phase == AllocationPhase::Pending && was_granted)
        return "Slurm has requeued the allocation";
    if (a.phase != AllocationPhase::Granted) return {};
    if (leaves <= now) return "the allocation is about to end";
    if (a.joined == 0 && a.granted_at + kJoinGrace <= now)
        return "no worker of the allocation has connected";
    return {};
}

}  // namespace

Events release_allocations(const State& state, Time now) {
    Events events;
    const auto leaves = go_back_at(state);
    for (const auto& [id, a] : state.allocations) {
        if (a.releasing) continue;
        const auto when = leaves.find(id);
        const std::string reason =
            end_reason(state, a, when == leaves.end() ? Time::max() : when->second, now);
        const bool came_to_nothing = a.joined == 0 && a.granted_at + kJoinGrace <= now;
        const bool failed = a.phase == AllocationPhase::Granted && came_to_nothing;
        if (!reason.empty()) events.push_back(AllocationReleasing{id, failed, reason});
    }
    return events;
}

Events hand_over_jobs(const State& state, Time) {
    Events events;
    for (const JobId id : state.index.running) {
        const Job& job = state.jobs.at(id);
        if (job.attempt->phase == AttemptPhase::Stopping) continue;
        for (const Place& place : job.attempt->places) {
            const auto worker = state.workers.find(place.worker);
            if (place.ended || worker == state.workers.end()) continue;
            const auto a = state.allocations.find(worker->second.allocation);
            if (a == state.allocations.end() || !a->second.releasing) continue;
            events.push_back(
                AttemptStopping{{id, job.attempt->token},
                                "the attempt's allocation is being released: " + a->second.reason});
            break;
        }
    }
    return events;
}

Events settle_queues(const State& state, Time) {
    Events events;
    for (const auto& [name, queue] : state.queues) {
        if (queue.failures >= kFailuresMax && !queue.paused && !queue.removing) {
            events.push_back(
                QueuePaused{name, true,
                            std::to_string(queue.failures) +
                                " allocation requests to Slurm in a row failed; the last one: " +
                                queue.reason});
        }
        const bool in_use = std::ranges::any_of(
            state.allocations, [&](const auto& item) { return item.second.queue == name; });
        if (queue.removing && !in_use) events.push_back(QueueRemoved{name});
    }
    return events;
}

}  // namespace roll::core
