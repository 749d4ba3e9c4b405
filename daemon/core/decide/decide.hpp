// Decides on inputs.
#pragma once

#include "common/error.hpp"
#include "daemon/core/state/input.hpp"

namespace roll::core {

// Judges one input and returns its events. An Error is a refusal, which changes nothing; an empty
// result means that nothing is new. An input about an attempt that is not current yields neither
// events nor an error, because the answer to the worker reports the attempt as FENCED, which orders
// the worker to kill it.
Result<Events> decide(const State& state, const Input& input, Time now);

}  // namespace roll::core
