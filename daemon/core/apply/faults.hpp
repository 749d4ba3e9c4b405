// Records the faults of machines.
#pragma once

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Records a fault of the machine that is blamed when the job's current attempt ends as an infra
// failure. Ignores machines that were draining or being released, lost workers (see note_loss())
// and outputs that could not be written (kExitRefused).
void note_fault(State& state, JobId id, Time at);

// Records a fault of the machine of a lost worker, just before the worker is erased. Ignores a
// worker that ran nothing, or that was draining or being released.
void note_loss(State& state, WorkerId id, Time at);

}  // namespace roll::core
