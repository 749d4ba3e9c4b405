// Decides on inputs about attempts, their members, checkpoints and exports.
#pragma once

#include "common/error.hpp"
#include "daemon/core/state/input.hpp"

namespace roll::core {

Result<Events> on(const State& s, const MemberStarted& in, Time now);
Result<Events> on(const State& s, const MemberExited& in, Time now);
Result<Events> on(const State& s, const MemberUnknown& in, Time now);
Result<Events> on(const State& s, const CheckpointWritten& in, Time now);
Result<Events> on(const State& s, const CheckpointDeleted& in, Time now);
Result<Events> on(const State& s, const RequestDone& in, Time now);
Result<Events> on(const State& s, const ExportWritten& in, Time now);

// Returns whether `key` is its job's current attempt and has a member on the worker that has not
// ended. If not, rolld ignores what the worker reports about the attempt. rolld's answer then lists
// the attempt as FENCED, and the worker kills the attempt.
bool is_current(const State& state, WorkerId worker, const AttemptKey& key);

}  // namespace roll::core
