// The rules of the core, in the order in which a turn runs them.
#pragma once

#include <span>

#include "daemon/core/state/event.hpp"

namespace roll::core {

// A rule derives events from State. Each file of this folder has one rule, or a few rules about the
// same thing. A turn runs the rules in order. Each rule sees the State that the previous rules have
// produced. The turn repeats this until no rule returns events.
using Rule = Events (*)(const State& state, Time now);
std::span<const Rule> rules();

}  // namespace roll::core
