// Preemption: the first waiting job may take the resources of other attempts. These attempts have
// lower priority and have run for the policy's `min_run`, or borrow the job's quota. These attempts
// stop after a checkpoint, as at a time limit, and their jobs are requeued. A job is therefore
// preempted at most once per `min_run` of running.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Stops attempts whose resources the first waiting job may take, if that job can then run.
Events preempt_jobs(const State& state, Time now);

}  // namespace roll::core
