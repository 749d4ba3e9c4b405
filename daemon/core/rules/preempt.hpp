// Preemption: the first waiting job may take the resources of a running attempt. The attempt must
// have run for the policy's `min_run`. The attempt's job must have a lower priority than the
// waiting job. If the attempt's job borrows, and the waiting job fits into its own account's quota,
// the priorities do not matter. The attempt stops after a checkpoint, as at a time limit, and its
// job is requeued. Between two preemptions, a job therefore runs for at least `min_run`.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// If preemption lets the first waiting job run, stops the attempts whose resources this job needs.
Events preempt_jobs(const State& state, Time now);

}  // namespace roll::core
