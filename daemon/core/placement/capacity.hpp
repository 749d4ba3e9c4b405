// Computes the free capacity of the workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/state/state.hpp"

namespace roll::core {

inline constexpr int kWholeGpu = 100;

// Free capacity of a worker.
struct FreeSlots {
    std::vector<int> slots;       // indices of free slots
    std::vector<int> gpus;        // free hundredths of each GPU
    int slots_in_all = 0;         // total slots of the worker
    std::vector<int> gpu_numa{};  // NUMA node of each GPU; empty: unknown
    std::string segment{};        // network segment; empty: unknown
    // how long jobs may stay on the worker; nullopt: no limit
    std::optional<std::chrono::milliseconds> left{};
    std::int64_t memory = 0;  // free memory in bytes
    int cpus = 0;
};
using Capacity = std::map<WorkerId, FreeSlots>;

// Returns whether `free` has the resources and the time that `wanted` requires on one node.
bool fits(const spec::Resources& wanted, const FreeSlots& free);

// Returns the whole capacity of the workers that take jobs and whose heartbeats arrive, as if no
// attempt used it.
Capacity all_capacity(const State& state, Time now);
// Returns the whole capacity of the workers that take jobs, even if their heartbeats are missing.
// If `excluded` is true, includes the workers of excluded machines.
Capacity known_capacity(const State& state, Time now, bool excluded = false);

// Returns the capacity that no attempt holds. An attempt holds all its places until its last member
// has ended. Otherwise, the gang's next attempt could start while members of this attempt still
// run.
Capacity free_capacity(const State& state, Time now);

// Removes the capacity of `places` from `capacity`.
void take(Capacity& capacity, const std::vector<Place>& places);
// Undoes take(): adds the capacity of `places` to `capacity`. Ignores places on workers that are no
// longer in `capacity`.
void give(Capacity& capacity, const std::vector<Place>& places);

}  // namespace roll::core
