// Free capacity of the workers, and where a gang fits.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/state.hpp"

namespace roll::core {

inline constexpr int kWholeGpu = 100;

// Free capacity of a worker.
struct Free {
    std::vector<int> slots;       // indices of free slots
    std::vector<int> gpus;        // free hundredths of each GPU
    int slots_in_all = 0;         // total slots of the worker
    std::vector<int> gpu_numa{};  // NUMA node of each GPU; empty: unknown
    std::string segment{};        // network segment; empty: unknown
    // How long jobs may stay; nullopt: no limit.
    std::optional<std::chrono::milliseconds> left{};
};
using Room = std::map<WorkerId, Free>;

bool fits(const spec::Resources& wanted, const Free& free);

// Returns the whole capacity of workers that take jobs and are heard.
Room all_room(const State& state, Time now);
// Like all_room(), but includes workers that are not heard now and, if `excluded`, workers of
// excluded machines.
Room known_room(const State& state, Time now, bool excluded = false);

// Returns the capacity not held by attempts. A place is held until the whole attempt has ended, not
// only its member, because a gang's next attempt must not start next to the rest of this one.
Room free_room(const State& state, Time now);

// Returns the places of a gang, spares last; empty if it does not fit as a whole. Workers in
// `avoid` are used last; of the others, the fullest that fit are used first, so that wide gangs
// find whole nodes (segments.hpp, coupling.hpp).
std::vector<Place> find_places(const spec::Resources& wanted, const Room& room,
                               const std::set<WorkerId>& avoid = {});

void take(Room& room, const std::vector<Place>& places);
// Gives the capacity of `places` back to the workers in `room`. Ignores places on workers that are
// no longer in `room`.
void give(Room& room, const std::vector<Place>& places);

}  // namespace roll::core
