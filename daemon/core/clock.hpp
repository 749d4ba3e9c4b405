// Shifts the times in State by a step of the system clock.
#pragma once

#include <chrono>

#include "daemon/core/state.hpp"

namespace roll::core {

// Shifts every recorded time by `step`, so that elapsed durations stay the same. Begin, deadline,
// cron times and the end of an allocation reported by Slurm are wall clock times and stay.
void move_instants(State& state, std::chrono::milliseconds step);

}  // namespace roll::core
