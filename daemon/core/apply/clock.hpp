// Corrects the times in State after a step of the system clock.
#pragma once

#include <chrono>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Shifts every recorded time by `step`, so that the time since each recorded time stays the same.
// Begin, deadline, cron times and the end of an allocation as reported by Slurm do not change,
// because they are meant as wall clock times.
void move_instants(State& state, std::chrono::milliseconds step);

}  // namespace roll::core
