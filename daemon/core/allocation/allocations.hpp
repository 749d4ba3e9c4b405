// Functions about Slurm allocations that several rules use.
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Time limit for the workers of a granted allocation to join. Workers that have not joined by then
// are no longer expected.
inline constexpr auto kJoinGrace = std::chrono::minutes(10);

// Returns the number of live workers of an allocation.
int live_workers(const State& s, AllocationId id);

// Returns the next time at which a rule about allocations may return events even if no input
// arrives; nullopt if there is none.
std::optional<Time> allocation_wakeup(const State& s, Time now);

// Returns, for each granted allocation, the time at which rolld releases it. Usually this is the
// allocation's end minus `handover` (a setting of the queue). If a job in the allocation needs more
// time to save (save_margin), rolld releases the allocation earlier, by up to a quarter of the
// queue's `time`.
std::map<AllocationId, Time> go_back_at(const State& state);

}  // namespace roll::core
