// Decides on inputs about workers.
#pragma once

#include "common/error.hpp"
#include "daemon/core/state/input.hpp"

namespace roll::core {

Result<Events> on(const State& s, const WorkerHeard& in, Time now);
Result<Events> on(const State& s, const Drain& in, Time now);
Result<Events> on(const State& s, const WorkerHello& in, Time now);
Result<Events> on(const State& s, const WorkerGone& in, Time now);
Result<Events> on(const State& s, const NodeDown& in, Time now);
Result<Events> on(const State& s, const StaleClaim& in, Time now);

}  // namespace roll::core
