#include "daemon/core/placement/capacity.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/facts/availability.hpp"

namespace roll::core {

bool fits(const spec::Resources& wanted, const FreeSlots& free) {
    const auto has = [&](int gpu) { return gpu >= wanted.gpu_percent; };
    return std::ssize(free.slots) >= wanted.slots_per_node &&
           std::ranges::count_if(free.gpus, has) >= wanted.gpus_per_node &&
           free.memory >= wanted.memory && free.cpus >= wanted.cpus &&
           (!free.left || wanted.time <= *free.left);
}

Capacity all_capacity(const State& state, Time now) {
    Capacity all = known_capacity(state, now);
    std::erase_if(all, [&](const auto& item) { return state.workers.at(item.first).quiet; });
    return all;
}

Capacity known_capacity(const State& state, Time now, bool excluded) {
    Capacity all;
    for (const auto& [id, worker] : state.workers) {
        const auto leaves = leaves_at(state, worker);
        if (!takes_work(state, worker, excluded) || (leaves && *leaves <= now)) continue;
        FreeSlots& free = all[id];
        if (leaves) free.left = *leaves - now;
        for (int i = 0; i < worker.slots; ++i) free.slots.push_back(i);
        free.gpus.assign(static_cast<std::size_t>(worker.gpus), kWholeGpu);
        free.slots_in_all = worker.slots;
        free.gpu_numa = worker.gpu_numa;
        free.segment = worker.segment;
        free.memory = worker.memory;
        free.cpus = worker.cpus;
    }
    return all;
}

Capacity free_capacity(const State& state, Time now) {
    Capacity capacity = all_capacity(state, now);
    for (const JobId id : state.index.running) {
        take(capacity, state.jobs.at(id).attempt->places);
    }
    return capacity;
}

void take(Capacity& capacity, const std::vector<Place>& places) {
    for (const Place& place : places) {
        const auto found = capacity.find(place.worker);
        if (found == capacity.end()) continue;
        for (int slot : place.slots) ROLL_CHECK(std::erase(found->second.slots, slot) == 1);
        found->second.memory -= place.memory;
        found->second.cpus -= place.cpus;
        ROLL_CHECK(found->second.memory >= 0 && found->second.cpus >= 0);
        for (int gpu : place.gpus) {
            int& free = found->second.gpus.at(static_cast<std::size_t>(gpu));
            free -= place.gpu_percent;
            ROLL_CHECK(free >= 0);
        }
    }
}

void give(Capacity& capacity, const std::vector<Place>& places) {
    for (const Place& place : places) {
        const auto found = capacity.find(place.worker);
        if (found == capacity.end()) continue;
        FreeSlots& free = found->second;
        free.slots.insert(free.slots.end(), place.slots.begin(), place.slots.end());
        ROLL_CHECK(std::ssize(free.slots) <= free.slots_in_all);
        free.memory += place.memory;
        free.cpus += place.cpus;
        for (int gpu : place.gpus) {
            free.gpus.at(static_cast<std::size_t>(gpu)) += place.gpu_percent;
            ROLL_CHECK(free.gpus.at(static_cast<std::size_t>(gpu)) <= kWholeGpu);
        }
    }
}

}  // namespace roll::core
