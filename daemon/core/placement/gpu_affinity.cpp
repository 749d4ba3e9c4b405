#include "daemon/core/placement/gpu_affinity.hpp"

#include <algorithm>
#include <tuple>

#include "common/check.hpp"

namespace roll::core {
namespace {

int numa_of(const FreeSlots& free, int gpu) {
    const auto index = static_cast<std::size_t>(gpu);
    return index < free.gpu_numa.size() ? free.gpu_numa[index] : 0;
}

std::vector<int> part_of_a_gpu(const FreeSlots& free, int percent) {
    int best = -1;
    for (int gpu = 0; gpu < std::ssize(free.gpus); ++gpu) {
        const int left = free.gpus[gpu];
        if (left >= percent && (best < 0 || left < free.gpus[best])) best = gpu;
    }
    ROLL_CHECK(best >= 0);
    return {best};
}

// Returns `count` whole GPUs. Prefers a single NUMA node: among the nodes with enough free GPUs,
// the node with the fewest. If no node has enough, uses several nodes, the nodes with the most free
// GPUs first.
std::vector<int> whole_gpus(const FreeSlots& free, int count) {
    std::map<int, std::vector<int>> by_node;
    for (int gpu = 0; gpu < std::ssize(free.gpus); ++gpu) {
        if (free.gpus[gpu] == kWholeGpu) by_node[numa_of(free, gpu)].push_back(gpu);
    }
    std::vector<std::pair<std::tuple<bool, int, int>, const std::vector<int>*>> order;
    for (const auto& [node, gpus] : by_node) {
        const int size = static_cast<int>(gpus.size());
        const bool enough = size >= count;
        order.push_back({{!enough, enough ? size : -size, node}, &gpus});
    }
    std::ranges::sort(order);
    std::vector<int> chosen;
    for (const auto& [rank, gpus] : order) {
        for (const int gpu : *gpus) {
            if (std::ssize(chosen) < count) chosen.push_back(gpu);
        }
    }
    ROLL_CHECK(std::ssize(chosen) == count);
    std::ranges::sort(chosen);
    return chosen;
}

// Chooses `count` free slots. Prefers slots near the chosen GPUs `gpus`, evenly distributed over
// these GPUs. If these do not suffice, takes slots near other GPUs, the GPUs with the smallest free
// share first. The slots near a GPU that is wholly free thus stay free for a later job.
std::vector<int> slots_near(const FreeSlots& free, const std::vector<int>& gpus, int count) {
    ROLL_CHECK(count <= std::ssize(free.slots));
    std::map<int, int> seen;  // maps a GPU to the number of slots near it so far
    // Sort keys of the slots, with three parts. First: false if the slot is near a chosen GPU.
    // Second: for a slot near a chosen GPU, its position among the slots near this GPU; for any
    // other slot, the free share of its GPU. Third: the index of the slot.
    std::vector<std::tuple<bool, int, int>> order;
    for (const int slot : free.slots) {
        const int near = gpu_near(slot, free);
        const bool chosen = std::ranges::count(gpus, near) > 0;
        order.push_back({!chosen, chosen ? seen[near]++ : free.gpus[near], slot});
    }
    std::ranges::sort(order);
    std::vector<int> slots;
    for (int i = 0; i < count; ++i) slots.push_back(std::get<2>(order[i]));
    std::ranges::sort(slots);
    return slots;
}

}  // namespace

int gpu_near(int slot, const FreeSlots& free) {
    const std::int64_t gpus = std::ssize(free.gpus);
    return static_cast<int>(slot * gpus / std::max(free.slots_in_all, 1));
}

Place place_on(WorkerId id, const FreeSlots& free, const spec::Resources& wanted) {
    Place place{.worker = id, .slots = {}, .gpus = {}, .gpu_percent = wanted.gpu_percent};
    place.memory = wanted.memory;
    place.cpus = wanted.cpus;
    if (wanted.gpus_per_node > 0) {
        place.gpus = wanted.gpu_percent < kWholeGpu ? part_of_a_gpu(free, wanted.gpu_percent)
                                                    : whole_gpus(free, wanted.gpus_per_node);
    }
    if (free.gpus.empty()) {
        ROLL_CHECK(wanted.slots_per_node <= std::ssize(free.slots));
        place.slots.assign(free.slots.begin(), free.slots.begin() + wanted.slots_per_node);
    } else {
        place.slots = slots_near(free, place.gpus, wanted.slots_per_node);
    }
    return place;
}

}  // namespace roll::core
