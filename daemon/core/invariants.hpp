// Checks the invariants of State.
#pragma once

#include "daemon/core/state/state.hpp"

namespace roll::core {

// ROLL_CHECKs the invariants of running attempts, between turns. Takes time proportional to the
// running jobs.
void check_running(const State& state);
// ROLL_CHECKs all invariants, including the index. Takes time proportional to the whole State, and
// is meant for tests and the simulator.
void check_invariants(const State& state);

}  // namespace roll::core
