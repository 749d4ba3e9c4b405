// Decides which jobs a submission makes, or why it is refused.
#pragma once

#include "common/error.hpp"
#include "daemon/core/state/input.hpp"

namespace roll::core {

Result<Events> on(const State& s, const Submit& in, Time now);

}  // namespace roll::core
