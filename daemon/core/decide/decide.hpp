// Decides on inputs.
#pragma once

#include "common/error.hpp"
#include "daemon/core/state/input.hpp"

namespace roll::core {

// Checks one input and returns the events that it causes. The result is empty if the input changes
// nothing. An Error means that the input is refused. An input about an attempt that is not current
// causes neither events nor an error: the next answer to the worker reports that attempt as FENCED,
// and the worker kills the attempt.
Result<Events> decide(const State& state, const Input& input, Time now);

// Returns whether `key` is its job's current attempt and has a member on the worker that has not
// ended. If not, rolld ignores what the worker reports about the attempt. rolld's answer then lists
// the attempt as FENCED, and the worker kills the attempt.
bool is_current(const State& state, WorkerId worker, const AttemptKey& key);

}  // namespace roll::core
