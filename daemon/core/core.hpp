// The daemon's core: pure functions over State. The core uses no sockets, SQL, clock, floating
// point or randomness. A turn (one pass of rolld's main loop) calls decide() and apply() for each
// input, then the rules, then actions().
#pragma once

#include "daemon/core/actions.hpp"
#include "daemon/core/apply/apply.hpp"
#include "daemon/core/decide/decide.hpp"
#include "daemon/core/invariants.hpp"
#include "daemon/core/rules/rules.hpp"
#include "daemon/core/wakeup.hpp"
