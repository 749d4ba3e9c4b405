// Queues exports of jobs that ended well.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Queues a convert job for each job that ended well and asks for an export.
Events queue_exports(const State& state, Time now);

}  // namespace roll::core
