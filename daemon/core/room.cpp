#include "daemon/core/room.hpp"

#include <algorithm>
#include <tuple>

#include "daemon/core/allocations.hpp"

namespace roll::core {

bool fits(const spec::Resources& wanted, const Free& free) {
    return std::ssize(free.slots) >= wanted.slots_per_node &&
           std::ssize(free.gpus) >= wanted.gpus_per_node &&
           (!free.left || wanted.time <= *free.left);
}

Room all_room(const State& state, Time now) {
    Room all = known_room(state, now);
    std::erase_if(all, [&](const auto& item) { return state.workers.at(item.first).quiet; });
    return all;
}

Room known_room(const State& state, Time now) {
    Room all;
    for (const auto& [id, worker] : state.workers) {
        const auto leaves = leaves_at(state, worker);
        if (!takes_work(state, worker) || (leaves && *leaves <= now)) continue;
        Free& free = all[id];
        if (leaves) free.left = *leaves - now;
        for (int i = 0; i < worker.slots; ++i) free.slots.push_back(i);
        for (int i = 0; i < worker.gpus; ++i) free.gpus.push_back(i);
    }
    return all;
}

Room free_room(const State& state, Time now) {
    Room room = all_room(state, now);
    for (const JobId id : state.index.running) {
        take(room, state.jobs.at(id).attempt->places);
    }
    return room;
}

std::vector<Place> find_places(const spec::Resources& wanted, const Room& all,
                               const std::set<WorkerId>& avoid) {
    std::vector<std::tuple<bool, std::size_t, WorkerId>> candidates;
    for (const auto& [id, room] : all) {
        if (fits(wanted, room))
            candidates.push_back({avoid.contains(id), room.slots.size() + room.gpus.size(), id});
    }
    if (std::ssize(candidates) < wanted.nodes) return {};
    std::ranges::sort(candidates);
    std::vector<Place> places;
    for (int i = 0; i < wanted.nodes; ++i) {
        const WorkerId id = std::get<WorkerId>(candidates[static_cast<std::size_t>(i)]);
        const Free& room = all.at(id);
        places.push_back({id,
                          {room.slots.begin(), room.slots.begin() + wanted.slots_per_node},
                          {room.gpus.begin(), room.gpus.begin() + wanted.gpus_per_node}});
    }
    return places;
}

void take(Room& room, const std::vector<Place>& places) {
    for (const Place& place : places) {
        const auto found = room.find(place.worker);
        if (found == room.end()) continue;
        for (int slot : place.slots) std::erase(found->second.slots, slot);
        for (int gpu : place.gpus) std::erase(found->second.gpus, gpu);
    }
}

void give(Room& room, const std::vector<Place>& places) {
    for (const Place& place : places) {
        const auto found = room.find(place.worker);
        if (found == room.end()) continue;
        Free& free = found->second;
        free.slots.insert(free.slots.end(), place.slots.begin(), place.slots.end());
        free.gpus.insert(free.gpus.end(), place.gpus.begin(), place.gpus.end());
    }
}

}  // namespace roll::core
