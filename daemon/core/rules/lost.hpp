// Ends the members on lost workers.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Ends the members of lost workers. The processes of these members are already dead: a worker kills
// its processes before rolld counts the worker as lost.
Events end_lost_members(const State& state, Time now);

}  // namespace roll::core
