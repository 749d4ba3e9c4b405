// Applies events to State.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Applies an event to State. State changes in no other way, neither live nor in replay. ROLL_CHECKs
// that the event is legal.
void apply(State& state, const Event& event);

}  // namespace roll::core
