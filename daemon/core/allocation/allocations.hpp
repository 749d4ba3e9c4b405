// Reads of Slurm allocations that the rules share.
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// How long the workers of a granted allocation may take to join. After this time no more of them
// are expected.
inline constexpr auto kJoinGrace = std::chrono::minutes(10);

// Returns the number of live workers of an allocation.
int live_workers(const State& s, AllocationId id);

// Returns the earliest time at which a rule about allocations may act although no input arrives;
// nullopt if there is none.
std::optional<Time> allocation_wakeup(const State& s, Time now);

// Returns the time at which each granted allocation is given back: the queue's `handover` before
// the allocation's end, or up to a quarter of the queue's `time` earlier if a job in it needs more
// time to save (save_margin).
std::map<AllocationId, Time> go_back_at(const State& state);

}  // namespace roll::core
