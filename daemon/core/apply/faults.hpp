// Records the faults of machines.
#pragma once

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Records a fault of the machine that is blamed for the end of the job's current attempt, if the
// attempt ended as an infra failure. Does nothing if the machine was draining or being released, if
// its worker was lost (note_loss() records this), or if the attempt could not write its output
// (kExitRefused).
void note_fault(State& state, JobId id, Time at);

// Records a fault of the machine of a lost worker, just before the worker is erased. Ignores a
// worker that ran nothing, or that was draining or being released.
void note_loss(State& state, WorkerId id, Time at);

}  // namespace roll::core
