// Ends the members on lost workers.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Ends the members of lost workers. Their processes are already dead, because a worker kills them
// before rolld counts the worker as lost.
Events end_lost_members(const State& state, Time now);

}  // namespace roll::core
