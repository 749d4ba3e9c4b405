#include <algorithm>

#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

// The free indices of a worker.
struct Free {
    std::vector<int> slots;
    std::vector<int> gpus;
};
using FreeMap = std::map<WorkerId, Free>;

FreeMap all_of(const State& state) {
    FreeMap all;
    for (const auto& [id, worker] : state.workers) {
        if (worker.draining) continue;
        Free& free = all[id];
        for (int i = 0; i < worker.slots; ++i) free.slots.push_back(i);
        for (int i = 0; i < worker.gpus; ++i) free.gpus.push_back(i);
    }
    return all;
}

// A place is held until the whole attempt has ended, not only its member: a gang's next attempt
// must not start beside what is left of this one.
FreeMap free_of(const State& state) {
    FreeMap free = all_of(state);
    for (const auto& [id, job] : state.jobs) {
        if (!job.attempt) continue;
        for (const Place& place : job.attempt->places) {
            const auto found = free.find(place.worker);
            if (found == free.end()) continue;
            for (int slot : place.slots) std::erase(found->second.slots, slot);
            for (int gpu : place.gpus) std::erase(found->second.gpus, gpu);
        }
    }
    return free;
}

bool is_due(const State& state, const Job& job, Time now) {
    return job.phase == JobPhase::Queued && !job.held && !job.cancel_requested &&
           job.not_before <= now && dependencies_hold(state, job);
}

std::vector<JobId> due_in_order(const State& state, Time now) {
    std::vector<JobId> due;
    for (const auto& [id, job] : state.jobs) {
        if (is_due(state, job, now)) due.push_back(id);
    }
    std::ranges::stable_sort(due, std::greater<>{},
                             [&](JobId id) { return state.jobs.at(id).spec.priority; });
    return due;
}

bool fits(const spec::Resources& wanted, const Free& free) {
    return std::ssize(free.slots) >= wanted.slots_per_node &&
           std::ssize(free.gpus) >= wanted.gpus_per_node;
}

// The places of a gang, or none if it does not fit whole. The fullest workers that fit come first,
// so that wide gangs find whole nodes.
std::vector<Place> find_places(const spec::Resources& wanted, const FreeMap& free) {
    std::vector<std::pair<std::size_t, WorkerId>> candidates;
    for (const auto& [id, room] : free) {
        if (fits(wanted, room)) candidates.push_back({room.slots.size() + room.gpus.size(), id});
    }
    if (std::ssize(candidates) < wanted.nodes) return {};
    std::ranges::sort(candidates);
    std::vector<Place> places;
    for (int i = 0; i < wanted.nodes; ++i) {
        const WorkerId id = candidates[static_cast<std::size_t>(i)].second;
        const Free& room = free.at(id);
        places.push_back({id,
                          {room.slots.begin(), room.slots.begin() + wanted.slots_per_node},
                          {room.gpus.begin(), room.gpus.begin() + wanted.gpus_per_node}});
    }
    return places;
}

void take(FreeMap& free, const std::vector<Place>& places) {
    for (const Place& place : places) {
        Free& room = free.at(place.worker);
        for (int slot : place.slots) std::erase(room.slots, slot);
        for (int gpu : place.gpus) std::erase(room.gpus, gpu);
    }
}

}  // namespace

// The first job that must wait holds back all behind it, so that no wide job starves; a job that no
// set of live workers could ever hold does not count.
Events place_jobs(const State& state, Time now) {
    Events events;
    const FreeMap all = all_of(state);
    FreeMap free = free_of(state);
    for (const JobId id : due_in_order(state, now)) {
        const Job& job = state.jobs.at(id);
        const auto places = find_places(job.spec.resources, free);
        if (places.empty()) {
            if (find_places(job.spec.resources, all).empty()) continue;
            return events;
        }
        take(free, places);
        const Token token{state.incarnation, job.attempts + 1};
        events.push_back(AttemptPlaced{{id, token}, places, now});
    }
    return events;
}

}  // namespace roll::core
