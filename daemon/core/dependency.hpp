// Whether what a job waits for has come.
#pragma once

#include "daemon/core/state.hpp"

namespace roll::core {

enum class Held { Not, Yes, Never };

// Of a condition on a job in this phase.
Held holds(spec::After::Condition condition, JobPhase phase);

// False too for a job that is forgotten: only what nobody waits for is.
bool is_open(const State& state, JobId id);

// The worst of all of a job's `after`: Never, then Not, then Yes.
Held dependencies(const State& state, const Job& job);

// The first `after` of the job that can no longer hold.
const spec::After* impossible(const State& state, const Job& job);

}  // namespace roll::core
