// Reads of Slurm allocations that the rules share.
#pragma once

#include <map>
#include <optional>

#include "daemon/core/state.hpp"

namespace roll::core {

// Returns the number of live workers of an allocation.
int live_workers(const State& s, AllocationId id);

// Returns the maximum number of allocations that the queue's limits allow at once while `alive` of
// its allocations are alive.
int most_alive(const AllocationQueue& queue, int alive);

// Returns the earliest time at which a rule about allocations may act although no input arrives;
// nullopt if there is none.
std::optional<Time> allocation_wakeup(const State& s, Time now);

// Returns the time at which each granted allocation is given back: the queue's `handover` before
// the allocation's end, or up to a quarter of the queue's `time` earlier if a job in it needs more
// time to save (save_margin).
std::map<AllocationId, Time> go_back_at(const State& state);

}  // namespace roll::core
