#include "daemon/core/placement/capacity.hpp"

#include <algorithm>

#include "daemon/core/facts/availability.hpp"

namespace roll::core {

bool fits(const spec::Resources& wanted, const Free& free) {
    const auto has = [&](int gpu) { return gpu >= wanted.gpu_percent; };
    return std::ssize(free.slots) >= wanted.slots_per_node &&
           std::ranges::count_if(free.gpus, has) >= wanted.gpus_per_node &&
           (!free.left || wanted.time <= *free.left);
}

Room all_room(const State& state, Time now) {
    Room all = known_room(state, now);
    std::erase_if(all, [&](const auto& item) { return state.workers.at(item.first).quiet; });
    return all;
}

Room known_room(const State& state, Time now, bool excluded) {
    Room all;
    for (const auto& [id, worker] : state.workers) {
        const auto leaves = leaves_at(state, worker);
        if (!takes_work(state, worker, excluded) || (leaves && *leaves <= now)) continue;
        Free& free = all[id];
        if (leaves) free.left = *leaves - now;
        for (int i = 0; i < worker.slots; ++i) free.slots.push_back(i);
        free.gpus.assign(static_cast<std::size_t>(worker.gpus), kWholeGpu);
        free.slots_in_all = worker.slots;
        free.gpu_numa = worker.gpu_numa;
        free.segment = worker.segment;
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

void take(Room& room, const std::vector<Place>& places) {
    for (const Place& place : places) {
        const auto found = room.find(place.worker);
        if (found == room.end()) continue;
        for (int slot : place.slots) std::erase(found->second.slots, slot);
        for (int gpu : place.gpus)
            found->second.gpus.at(static_cast<std::size_t>(gpu)) -= place.gpu_percent;
    }
}

void give(Room& room, const std::vector<Place>& places) {
    for (const Place& place : places) {
        const auto found = room.find(place.worker);
        if (found == room.end()) continue;
        Free& free = found->second;
        free.slots.insert(free.slots.end(), place.slots.begin(), place.slots.end());
        for (int gpu : place.gpus) free.gpus.at(static_cast<std::size_t>(gpu)) += place.gpu_percent;
    }
}

}  // namespace roll::core
