// Computes when the rules must run even if no input arrives.
#pragma once

#include <optional>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Returns the next time at which a rule may return events even if no input arrives; nullopt if
// there is none. For example, a back-off may end then, or an attempt may reach its time limit.
std::optional<Time> next_wakeup(const State& state, Time now);

}  // namespace roll::core
