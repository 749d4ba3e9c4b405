// Decides on inputs about jobs that have been submitted.
#pragma once

#include "common/error.hpp"
#include "daemon/core/state/input.hpp"

namespace roll::core {

Result<Events> on(const State& s, const Cancel& in, Time now);
Result<Events> on(const State& s, const Close& in, Time now);
Result<Events> on(const State& s, const Hold& in, Time now);
Result<Events> on(const State& s, const Requeue& in, Time now);
Result<Events> on(const State& s, const SetPriority& in, Time now);
Result<Events> on(const State& s, const SetBegin& in, Time now);
Result<Events> on(const State& s, const AskCheckpoint& in, Time now);
Result<Events> on(const State& s, const AskTraining& in, Time now);

}  // namespace roll::core
