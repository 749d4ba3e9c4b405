// Ends closed job groups.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Ends a closed group after its last job has ended. The group succeeds if all its jobs have
// succeeded.
Events end_closed_jobs(const State& state, Time now);

}  // namespace roll::core
