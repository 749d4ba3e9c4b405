// Wakes jobs whose begin time or back-off has passed.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Marks jobs as due when their begin time or back-off has passed.
Events wake_jobs(const State& state, Time now);

}  // namespace roll::core
