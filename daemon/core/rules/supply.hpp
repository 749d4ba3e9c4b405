// Orders and gives back Slurm allocations. Orders the nodes that the waiting jobs lack
// (allocation/planner.hpp), and gives back allocations that stay unused.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Orders allocations for the waiting jobs within the limits of the queues, and releases unused
// allocations.
Events match_supply(const State& state, Time now);

}  // namespace roll::core
