// Records the faults of machines.
#pragma once

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Records a fault of the machine that is blamed for the infra failure of the job's current attempt.
// Does nothing in three cases: the machine was draining or being released, its worker is lost (see
// note_loss()), or the attempt could not write its output (kExitRefused).
void note_fault(State& state, JobId id, Time at);

// Records a fault of the machine of a lost worker, just before the worker is erased. Ignores a
// worker that ran nothing, or that was draining or being released.
void note_loss(State& state, WorkerId id, Time at);

}  // namespace roll::core
