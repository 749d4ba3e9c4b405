// Requests and releases Slurm allocations. Requests the nodes that the waiting jobs lack
// (allocation/planner.hpp), and releases allocations that stay unused.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Requests allocations for the waiting jobs within the limits of the queues, and releases unused
// allocations.
Events match_supply(const State& state, Time now);

}  // namespace roll::core
