// Corrects the times in State after a step of the system clock.
#pragma once

#include <chrono>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Shifts every recorded time by `step`, so that the time since each recorded time stays the same.
// Wall clock times do not change: begin times, deadlines, cron times, and the end of an allocation
// as Slurm reports it.
void move_instants(State& state, std::chrono::milliseconds step);

}  // namespace roll::core
