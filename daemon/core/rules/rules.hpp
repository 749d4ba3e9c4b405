// The rules of the core, in the order in which a turn runs them.
#pragma once

#include <span>

#include "daemon/core/state/event.hpp"

namespace roll::core {

// A rule derives events from State. Each file of this folder has one rule, or a few rules about the
// same subject. A turn runs the rules in order, and each rule sees the State that the rules before
// it have produced. The turn repeats all rules until none returns events.
using Rule = Events (*)(const State& state, Time now);
std::span<const Rule> rules();

}  // namespace roll::core
