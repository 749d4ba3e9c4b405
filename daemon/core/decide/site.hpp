// Decides on inputs about rolld as a whole: its start, policy, secrets and clock.
#pragma once

#include "common/error.hpp"
#include "daemon/core/state/input.hpp"

namespace roll::core {

Result<Events> on(const State& s, const Started& in, Time now);
Result<Events> on(const State& s, const Adopted& in, Time now);
Result<Events> on(const State& s, const SetPolicy& in, Time now);
Result<Events> on(const State& s, const SetSecrets& in, Time now);
Result<Events> on(const State& s, const StopDispatch& in, Time now);
Result<Events> on(const State& s, const Tick& in, Time now);

}  // namespace roll::core
