#include <algorithm>

#include "daemon/core/decide/on.hpp"
#include "daemon/core/facts/lookups.hpp"

namespace roll::core {
namespace {

constexpr auto kSameEnd = std::chrono::seconds(5);

const Allocation* find(const State& s, AllocationId id) {
    const auto found = s.allocations.find(id);
    return found == s.allocations.end() ? nullptr : &found->second;
}

tl::unexpected<Error> no_such_queue(const std::string& name) {
    return fail(ErrorCode::NotFound, "there is no allocation queue " + name, "rollctl alloc list");
}

tl::unexpected<Error> no_such_allocation(AllocationId id) {
    return fail(ErrorCode::NotFound,
                "there is no allocation " + std::to_string(id.value) + ", or it has ended",
                "rollctl alloc list");
}

// Returns whether some worker of the allocation may still run jobs. A draining worker without jobs
// does not count, even if it is not lost yet.
bool is_heard(const State& s, AllocationId id) {
    return std::ranges::any_of(s.workers, [&](const auto& item) {
        const auto& [worker_id, worker] = item;
        return worker.allocation == id && (!worker.draining || is_busy(s, worker_id));
    });
}

// Appends a WorkerLost event for each worker of the allocation.
void lose_workers(const State& s, AllocationId allocation, const std::string& reason, Time now,
                  Events& events) {
    for (const auto& [id, worker] : s.workers) {
        if (worker.allocation == allocation)
            events.push_back(WorkerLost{id, reason, now, worker.node});
    }
}

void add_end(const State& s, const AllocationEnded& end, Events& events) {
    lose_workers(s, end.allocation, "the worker's allocation has ended", end.at, events);
    events.push_back(end);
}

// Returns the event for an allocation that has ended. The allocation counts as failed if no worker
// ever joined and rolld did not release the allocation.
AllocationEnded ended(AllocationId id, const Allocation& a, const std::string& reason, Time now) {
    const bool failed = a.failed || (a.joined == 0 && !a.releasing);
    return {id, failed, a.reason.empty() ? reason : a.reason, now};
}

}  // namespace

Result<Events> on(const State& s, const AddQueue& in, Time now) {
    if (const auto known = s.queues.find(in.queue.name); known != s.queues.end()) {
        if (known->second.spec == in.queue && !known->second.removing) return Events{};
        return fail(ErrorCode::Refused,
                    "there is an allocation queue " + in.queue.name + " already",
                    "rollctl alloc remove " + in.queue.name);
    }
    return Events{QueueAdded{in.queue, now, in.by}};
}

Result<Events> on(const State& s, const PauseQueue& in, Time) {
    const auto queue = s.queues.find(in.queue);
    if (queue == s.queues.end()) return no_such_queue(in.queue);
    if (queue->second.paused == in.paused && (in.paused || queue->second.failures == 0))
        return Events{};
    return Events{QueuePaused{in.queue, in.paused, in.paused ? "paused by a user" : "", in.by}};
}

Result<Events> on(const State& s, const RemoveQueue& in, Time) {
    const auto queue = s.queues.find(in.queue);
    if (queue == s.queues.end()) return no_such_queue(in.queue);
    if (queue->second.removing) return Events{};
    return Events{QueueRemoving{in.queue, in.by}};
}

Result<Events> on(const State& s, const CloseAllocation& in, Time) {
    const Allocation* a = find(s, in.allocation);
    if (a == nullptr) return no_such_allocation(in.allocation);
    if (a->closed || a->releasing) return Events{};
    return Events{AllocationClosed{in.allocation, in.by}};
}

Result<Events> on(const State& s, const CancelAllocation& in, Time) {
    const Allocation* a = find(s, in.allocation);
    if (a == nullptr) return no_such_allocation(in.allocation);
    if (a->releasing) return Events{};
    return Events{AllocationReleasing{in.allocation, false,
                                      "cancelled by " + (in.by.empty() ? "a user" : in.by)}};
}

Result<Events> on(const State& s, const OrderAnswered& in, Time now) {
    const Allocation* a = find(s, in.allocation);
    if (a == nullptr || a->phase != AllocationPhase::Ordered) return Events{};
    if (in.accepted) return Events{AllocationAccepted{in.allocation, in.slurm_job}};
    return Events{ended(in.allocation, *a, in.reason, now)};
}

// Handles squeue's report about an allocation request. While a worker of the allocation may still
// run jobs, ignores reports that the allocation has ended or was requeued.
Result<Events> on(const State& s, const OrderSeen& in, Time now) {
    const Allocation* a = find(s, in.allocation);
    if (a == nullptr || (!a->slurm_job.empty() && a->slurm_job != in.slurm_job)) return Events{};
    Events events;
    if (a->phase == AllocationPhase::Ordered)
        events.push_back(AllocationAccepted{in.allocation, in.slurm_job});
    const bool granted = a->phase == AllocationPhase::Granted;
    if (in.phase == SlurmPhase::Running) {
        const Time begin = in.began.value_or(granted ? a->granted_at : now);
        const Time end =
            in.ends.value_or(granted ? a->ends_at : begin + s.queues.at(a->queue).spec.time);
        const auto moved = end > a->ends_at ? end - a->ends_at : a->ends_at - end;
        if (!granted || moved > kSameEnd)
            events.push_back(AllocationGranted{in.allocation, std::min(begin, now), end});
    }
    if (in.phase == SlurmPhase::Pending && granted && !is_heard(s, in.allocation)) {
        lose_workers(s, in.allocation, "Slurm has requeued the worker's allocation", now, events);
        events.push_back(AllocationReturned{in.allocation});
    }
    if (in.phase == SlurmPhase::Ended && !is_heard(s, in.allocation))
        add_end(s, ended(in.allocation, *a, in.reason, now), events);
    return events;
}

Result<Events> on(const State& s, const OrderMissing& in, Time now) {
    const Allocation* a = find(s, in.allocation);
    if (a == nullptr || is_heard(s, in.allocation)) return Events{};
    Events events;
    add_end(s, ended(in.allocation, *a, in.reason, now), events);
    return events;
}

Result<Events> welcome_pilot(const State& s, const Pilot& pilot, Time now) {
    const Allocation* a = find(s, pilot.allocation);
    const bool ours = a != nullptr && a->incarnation == pilot.incarnation &&
                      (a->slurm_job.empty() || a->slurm_job == pilot.slurm_job);
    if (!ours || a->releasing)
        return fail(
            ErrorCode::Refused,
            "rolld did not request the Slurm allocation of this roll-worker, or is releasing it");
    if (pilot.slurm_job.empty())
        return fail(ErrorCode::Refused,
                    "SLURM_JOB_ID is not set, but this roll-worker must run in a Slurm job");
    Events events;
    if (a->phase == AllocationPhase::Ordered)
        events.push_back(AllocationAccepted{pilot.allocation, pilot.slurm_job});
    if (a->phase != AllocationPhase::Granted) {
        const Time full = now + s.queues.at(a->queue).spec.time;
        const Time ends = pilot.ends_at > now ? pilot.ends_at : full;
        events.push_back(AllocationGranted{pilot.allocation, now, ends});
    }
    return events;
}

}  // namespace roll::core
