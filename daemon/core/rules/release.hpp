// Releases allocations, and pauses or removes the queues of allocations.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Releases allocations that end soon, whose queue is being removed, or whose workers do not join.
Events release_allocations(const State& state, Time now);

// Stops jobs, with a checkpoint, in allocations that are being released.
Events hand_over_jobs(const State& state, Time now);

// Pauses queues whose allocation requests keep failing. Removes queues marked for removal once they
// are empty.
Events settle_queues(const State& state, Time now);

}  // namespace roll::core
