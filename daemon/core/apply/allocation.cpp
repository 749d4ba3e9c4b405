#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/apply/on.hpp"

namespace roll::core {
namespace {

constexpr auto kBackoffFirst = std::chrono::seconds(30);

// Maximum number of doublings of the back-off. After this number of doublings, the back-off is
// about an hour.
constexpr int kBackoffDoublingsMax = 7;

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

}  // namespace

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
void on(State& s, const QueueRemoved& e) {
    ROLL_CHECK(queue_at(s, e.queue).removing);
    const auto is_in = [&](const auto& item) { return item.second.queue == e.queue; };
    ROLL_CHECK(std::ranges::none_of(s.allocations, is_in));
    s.queues.erase(e.queue);
}
void on(State& s, const AllocationOrdered& e) {
    ROLL_CHECK(e.allocation.value >= s.next_allocation);
    ROLL_CHECK(e.incarnation == s.incarnation);
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
void on(State& s, const AllocationClosed& e) {
    Allocation& allocation = at(s, e.allocation);
    ROLL_CHECK(!allocation.closed && !allocation.releasing);
    allocation.closed = true;
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
    // `granted_at` is set even if Slurm requeued the allocation after the grant.
    if (allocation.granted_at != Time{}) {
        const Time until = std::min(e.at, allocation.ends_at);
        const auto used = std::chrono::ceil<std::chrono::seconds>(until - allocation.granted_at);
        queue.gpu_seconds +=
            std::max<std::int64_t>(used.count(), 0) * queue.spec.nodes * queue.spec.gpus;
    }
    // Erase the entries of the allocation's nodes. Node names contain the allocation, so no later
    // worker has these names.
    for (const std::string& node : allocation.nodes) {
        s.sessions.erase(node);
        s.generations.erase(node);
    }
    s.allocations.erase(e.allocation);
}
void on(State& s, const PilotJoined& e) {
    const auto worker = s.workers.find(e.worker);
    ROLL_CHECK(worker != s.workers.end() && worker->second.allocation == AllocationId{});
    worker->second.allocation = e.allocation;
    Allocation& allocation = at(s, e.allocation);
    ROLL_CHECK(allocation.phase == AllocationPhase::Granted && !allocation.releasing);
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

}  // namespace roll::core
