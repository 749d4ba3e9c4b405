// Decides what follows the end of an attempt: a retry, or the end of its job.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Exit status of a cancelled job, as after Ctrl-C.
inline constexpr int kExitCancelled = 130;

// Ends attempts whose members have all ended, and ends or requeues their jobs.
Events settle_attempts(const State& state, Time now);

}  // namespace roll::core
