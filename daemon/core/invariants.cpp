#include "daemon/core/invariants.hpp"

#include <map>
#include <set>

#include "common/check.hpp"
#include "daemon/core/apply/indexing.hpp"

namespace roll::core {
namespace {

// by worker: the slots in use, and the hundredths of each GPU in use
using Taken = std::map<WorkerId, std::pair<std::set<int>, std::map<int, int>>>;

// Checks that each slot and GPU of the place exists, and that none is assigned twice.
void check_place(const State& state, const Job& job, const Place& place, Taken& taken) {
    ROLL_CHECK(std::ssize(place.slots) == job.resources().slots_per_node);
    ROLL_CHECK(std::ssize(place.gpus) == job.resources().gpus_per_node);
    ROLL_CHECK(place.gpu_percent == job.resources().gpu_percent);
    const auto worker = state.workers.find(place.worker);
    if (worker == state.workers.end()) {
        ROLL_CHECK(place.ended);
        return;
    }
    auto& [slots, gpus] = taken[place.worker];
    for (int slot : place.slots) {
        ROLL_CHECK(slot >= 0 && slot < worker->second.slots);
        ROLL_CHECK(slots.insert(slot).second);
    }
    for (int gpu : place.gpus) {
        ROLL_CHECK(gpu >= 0 && gpu < worker->second.gpus);
        gpus[gpu] += place.gpu_percent;
        ROLL_CHECK(gpus[gpu] <= 100);
    }
}

void check_attempt(const State& state, const Job& job, Taken& taken) {
    ROLL_CHECK(job.attempt.has_value());
    ROLL_CHECK(job.attempt->token.attempt == job.attempts);
    const auto& places = job.attempt->places;
    const std::ptrdiff_t nodes = job.resources().nodes;
    ROLL_CHECK(std::ssize(places) >= nodes && std::ssize(places) <= job.resources().workers());
    bool all_ended = true;
    for (const Place& place : places) {
        check_place(state, job, place, taken);
        ROLL_CHECK(place.spare == (&place - places.data() >= nodes));
        ROLL_CHECK(place.ended || !place.spare);
        all_ended = all_ended && place.ended;
    }
    ROLL_CHECK(!all_ended);
}

void check_job(const State& state, JobId id, const Job& job) {
    ROLL_CHECK(id.value < state.next_job);
    ROLL_CHECK(job.attempt.has_value() == (job.phase == JobPhase::Running));
    ROLL_CHECK(job.due || job.phase != JobPhase::Running);
    ROLL_CHECK(job.ended_at.has_value() == is_over(job.phase));
    ROLL_CHECK(job.past.size() + (job.attempt ? 1 : 0) == job.attempts);
    for (std::size_t i = 0; i < job.past.size(); ++i)
        ROLL_CHECK(job.past[i].token.attempt == i + 1);
    for (std::size_t i = 1; i < job.checkpoints.size(); ++i)
        ROLL_CHECK(job.checkpoints[i - 1].step < job.checkpoints[i].step);
}

void check_allocations(const State& s) {
    for (const auto& [id, allocation] : s.allocations) {
        ROLL_CHECK(id.value < s.next_allocation);
        ROLL_CHECK(s.queues.contains(allocation.queue));
        ROLL_CHECK((allocation.phase == AllocationPhase::Ordered) == allocation.slurm_job.empty());
    }
    for (const auto& [id, worker] : s.workers) {
        if (worker.allocation.value == 0) continue;
        const auto a = s.allocations.find(worker.allocation);
        ROLL_CHECK(a != s.allocations.end() && a->second.phase == AllocationPhase::Granted);
    }
}

}  // namespace

void check_running(const State& state) {
    Taken taken;
    for (const JobId id : state.index.running) check_attempt(state, state.jobs.at(id), taken);
}

void check_invariants(const State& state) {
    for (const auto& [id, job] : state.jobs) check_job(state, id, job);
    check_running(state);
    ROLL_CHECK(state.index == make_index(state));
    for (const auto& [user, keys] : state.keys) {
        for (const auto& [key, id] : keys)
            ROLL_CHECK(state.jobs.at(id).key == key && state.jobs.at(id).user == user);
    }
    check_allocations(state);
    std::set<std::string> nodes;
    for (const auto& [id, worker] : state.workers) {
        ROLL_CHECK(id.value < state.next_worker);
        ROLL_CHECK(nodes.insert(worker.node).second);
        ROLL_CHECK(state.sessions.at(worker.node).back() == worker.session);
    }
}

}  // namespace roll::core
