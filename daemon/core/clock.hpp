// Moves the instants in State by a step of the system's clock.
#pragma once

#include <chrono>

#include "daemon/core/state.hpp"

namespace roll::core {

// Moves every instant that was noted by `step`, so that as much time has passed since as before and
// durations go on. Begin, deadline, the times of cron and the end that Slurm told for an allocation
// are of the wall clock and stay.
void move_instants(State& state, std::chrono::milliseconds step);

}  // namespace roll::core
