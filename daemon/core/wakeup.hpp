// Computes when the rules must run even if no input arrives.
#pragma once

#include <optional>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Returns the next time at which a rule may return events even if no input arrives, for example
// because a back-off ends or a time limit is reached; nullopt if there is none.
std::optional<Time> next_wakeup(const State& state, Time now);

}  // namespace roll::core
