// What of the workers is free, and where a gang would fit.
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

// What is free of a worker.
struct Free {
    std::vector<int> slots;       // indices
    std::vector<int> gpus;        // of each GPU, in hundredths
    int slots_in_all = 0;         // that the worker has
    std::vector<int> gpu_numa{};  // NUMA node of each GPU; empty: not known
    std::string segment{};        // of the network; empty: not known
    // How long jobs may stay; none: for ever.
    std::optional<std::chrono::milliseconds> left{};
};
using Room = std::map<WorkerId, Free>;

bool fits(const spec::Resources& wanted, const Free& free);

// All that the workers have which take jobs and are heard.
Room all_room(const State& state, Time now);
// The same, those included that are not heard just now, and if `excluded` those of machines that
// are left out for their faults.
Room known_room(const State& state, Time now, bool excluded = false);

// Without what attempts hold. A place is held until the whole attempt has ended, not only its
// member: a gang's next attempt must not start beside what is left of this one.
Room free_room(const State& state, Time now);

// The places of a gang, its spares last, or none if it does not fit whole. Workers to avoid come
// last; then the fullest that fit come first, so that wide gangs find whole nodes
// (segments.hpp, coupling.hpp).
std::vector<Place> find_places(const spec::Resources& wanted, const Room& room,
                               const std::set<WorkerId>& avoid = {});

void take(Room& room, const std::vector<Place>& places);
// What of these places the room's workers have.
void give(Room& room, const std::vector<Place>& places);

}  // namespace roll::core
