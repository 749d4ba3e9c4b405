// Whether, and for how long, a worker may get new work.
#pragma once

#include <optional>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Returns whether the worker may get new work. If `excluded` is set, ignores an exclusion of the
// worker's machine.
bool takes_work(const State& state, const Worker& worker, bool excluded = false);

// Returns the time by which all jobs must have left the worker; nullopt if it runs in no
// allocation.
std::optional<Time> leaves_at(const State& state, const Worker& worker);

// Returns whether a job that starts now can use its whole time limit before `leaves`.
bool has_time_for(const std::optional<Time>& leaves, const spec::Resources& wanted, Time now);

}  // namespace roll::core
