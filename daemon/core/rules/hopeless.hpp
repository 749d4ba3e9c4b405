// Ends queued jobs that can never run.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Ends queued jobs that were cancelled, that have a dependency that can no longer be met, or that
// cannot end before their deadline.
Events end_hopeless_jobs(const State& state, Time now);

}  // namespace roll::core
