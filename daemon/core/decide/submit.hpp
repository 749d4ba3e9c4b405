// Submissions: which jobs they make, and why they are refused.
#pragma once

#include "common/error.hpp"
#include "daemon/core/state/input.hpp"

namespace roll::core {

Result<Events> on(const State& s, const Submit& in, Time now);

}  // namespace roll::core
