// Preemption: the first waiting job may take the resources of an attempt that has run for the
// policy's `min_run` and has a lower priority or borrows the waiting job's quota. The attempt stops
// after a checkpoint, as at a time limit, and its job is requeued. Between two preemptions, a job
// therefore runs for at least `min_run`.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Stops attempts whose resources the first waiting job may take, if that job can then run.
Events preempt_jobs(const State& state, Time now);

}  // namespace roll::core
