// Records the faults of machines.
#pragma once

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Records a fault of the machine that is blamed when the job's current attempt ends as an infra
// failure. Does nothing for a machine that was draining or being released, for a lost worker (see
// note_loss()), or for an output that could not be written (kExitRefused).
void note_fault(State& state, JobId id, Time at);

// Records a fault of the machine of a lost worker, just before the worker is erased. Ignores a
// worker that ran nothing, or that was draining or being released.
void note_loss(State& state, WorkerId id, Time at);

}  // namespace roll::core
