#include "daemon/core/allocations.hpp"

#include <algorithm>
#include <set>

#include "common/check.hpp"
#include "daemon/core/lookups.hpp"

namespace roll::core {
namespace {

constexpr auto kBackoffFirst = std::chrono::seconds(30);
// Maximum number of doublings of the back-off. After all of them, the back-off is about an hour.
constexpr int kBackoffDoublingsMax = 7;
constexpr auto kSameEnd = std::chrono::seconds(5);

Allocation& at(State& s, AllocationId id) {
    const auto found = s.allocations.find(id);
    ROLL_CHECK(found != s.allocations.end());
    return found->second;
}

AllocationQueue& queue_at(State& s, const std::string& name) {
    const auto found = s.queues.find(name);
    ROLL_CHECK(found != s.queues.end());
    return found->second;
}

const Allocation* find(const State& s, AllocationId id) {
    const auto found = s.allocations.find(id);
    return found == s.allocations.end() ? nullptr : &found->second;
}

tl::unexpected<Error> no_such_queue(const std::string& name) {
    return fail(ErrorCode::NotFound, "there is no allocation queue " + name, "rollctl alloc list");
}

// Returns whether some worker of the allocation may still run jobs. A draining worker without jobs
// runs no more jobs, although the worker does not count as lost yet.
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
        if (worker.allocation == allocation) events.push_back(WorkerLost{id, reason, now});
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

int live_workers(const State& s, AllocationId id) {
    return static_cast<int>(std::ranges::count_if(
        s.workers, [&](const auto& item) { return item.second.allocation == id; }));
}

// apply() calls these overloads for events about allocations.

void on(State& s, const QueueAdded& e) {
    ROLL_CHECK(!s.queues.contains(e.queue.name));
    s.queues[e.queue.name].spec = e.queue;
}
void on(State& s, const QueuePaused& e) {
    AllocationQueue& queue = queue_at(s, e.queue);
    queue.paused = e.paused;
    queue.reason = e.reason;
    if (e.paused) return;
    queue.failures = 0;
    queue.not_before = {};
}
void on(State& s, const QueueRemoving& e) { queue_at(s, e.queue).removing = true; }
void on(State& s, const QueueRemoved& e) { ROLL_CHECK(s.queues.erase(e.queue) == 1); }
void on(State& s, const AllocationOrdered& e) {
    ROLL_CHECK(e.allocation.value >= s.next_allocation);
    s.next_allocation = e.allocation.value + 1;
    queue_at(s, e.queue);
    s.allocations[e.allocation] = {
        .queue = e.queue, .incarnation = e.incarnation, .ordered_at = e.at};
}
void on(State& s, const AllocationAccepted& e) {
    Allocation& allocation = at(s, e.allocation);
    ROLL_CHECK(allocation.phase == AllocationPhase::Ordered);
    allocation.phase = AllocationPhase::Pending;
    allocation.slurm_job = e.slurm_job;
}
void on(State& s, const AllocationGranted& e) {
    Allocation& allocation = at(s, e.allocation);
    ROLL_CHECK(allocation.phase != AllocationPhase::Ordered);
    if (allocation.phase != AllocationPhase::Granted) allocation.used_at = e.at;
    allocation.phase = AllocationPhase::Granted;
    allocation.granted_at = e.at;
    allocation.ends_at = e.ends_at;
}
void on(State& s, const AllocationReturned& e) {
    Allocation& allocation = at(s, e.allocation);
    ROLL_CHECK(allocation.phase == AllocationPhase::Granted);
    allocation.phase = AllocationPhase::Pending;
    allocation.joined = 0;
}
void on(State& s, const AllocationReleasing& e) {
    Allocation& allocation = at(s, e.allocation);
    ROLL_CHECK(!allocation.releasing);
    allocation.releasing = true;
    allocation.failed = e.failed;
    allocation.reason = e.reason;
}
void on(State& s, const AllocationEnded& e) {
    const Allocation& allocation = at(s, e.allocation);
    AllocationQueue& queue = queue_at(s, allocation.queue);
    if (e.failed) {
        const int doublings = std::min(queue.failures, kBackoffDoublingsMax);
        ++queue.failures;
        queue.not_before = e.at + kBackoffFirst * (1 << doublings);
        if (!queue.paused) queue.reason = e.reason;
    }
    // Also true if Slurm requeued the allocation after the grant.
    if (allocation.granted_at != Time{}) {
        const Time until = std::min(e.at, allocation.ends_at);
        const auto used = std::chrono::ceil<std::chrono::seconds>(until - allocation.granted_at);
        queue.gpu_seconds +=
            std::max<std::int64_t>(used.count(), 0) * queue.spec.nodes * queue.spec.gpus;
    }
    // Node names of an allocation are never used again.
    for (const std::string& node : allocation.nodes) {
        s.sessions.erase(node);
        s.generations.erase(node);
    }
    s.allocations.erase(e.allocation);
}
void on(State& s, const PilotJoined& e) {
    const auto worker = s.workers.find(e.worker);
    ROLL_CHECK(worker != s.workers.end());
    worker->second.allocation = e.allocation;
    Allocation& allocation = at(s, e.allocation);
    ++allocation.joined;
    const std::string& node = worker->second.node;
    if (!std::ranges::count(allocation.nodes, node)) allocation.nodes.push_back(node);
    allocation.used_at = e.at;
    AllocationQueue& queue = queue_at(s, allocation.queue);
    queue.proven = true;
    queue.failures = 0;
    if (!queue.paused) queue.reason.clear();
}

void note_used(State& s, WorkerId worker, Time at) {
    const auto found = s.workers.find(worker);
    if (found == s.workers.end()) return;
    const auto allocation = s.allocations.find(found->second.allocation);
    if (allocation != s.allocations.end()) allocation->second.used_at = at;
}

// decide() calls these overloads for inputs about allocations.

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

Result<Events> on(const State& s, const OrderAnswered& in, Time now) {
    const Allocation* a = find(s, in.allocation);
    if (a == nullptr || a->phase != AllocationPhase::Ordered) return Events{};
    if (in.accepted) return Events{AllocationAccepted{in.allocation, in.slurm_job}};
    return Events{ended(in.allocation, *a, in.reason, now)};
}

// Handles squeue's report about an order. A report that the order has ended or was requeued is
// ignored while one of its workers is heard from.
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
        return fail(ErrorCode::Refused,
                    "rolld has no open request for the allocation of this roll-worker");
    if (pilot.slurm_job.empty())
        return fail(ErrorCode::Refused,
                    "SLURM_JOB_ID is not set: this pilot does not run in a Slurm job");
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

// Returns the actions towards Slurm. An order that is no longer wanted is given back even if it was
// not accepted, because it may have reached Slurm.
std::vector<SlurmAction> slurm_actions(const State& s) {
    std::set<AllocationId> busy;
    for (const auto& [worker, jobs] : s.index.by_worker) {
        const auto found = s.workers.find(worker);
        const Allocation* a =
            found == s.workers.end() ? nullptr : find(s, found->second.allocation);
        if (a != nullptr && a->releasing && is_busy(s, worker))
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

void check_allocations(const State& s) {
    for (const auto& [id, allocation] : s.allocations) {
        ROLL_CHECK(id.value < s.next_allocation);
        ROLL_CHECK(s.queues.contains(allocation.queue));
        ROLL_CHECK((allocation.phase == AllocationPhase::Ordered) == allocation.slurm_job.empty());
    }
    for (const auto& [id, worker] : s.workers) {
        if (worker.allocation.value == 0) continue;
        const Allocation* a = find(s, worker.allocation);
        ROLL_CHECK(a != nullptr && a->phase == AllocationPhase::Granted);
    }
}

}  // namespace roll::core
