// Evaluates a job's dependencies.
#pragma once

#include <vector>

#include "daemon/core/state.hpp"

namespace roll::core {

enum class Held { Not, Yes, Never };

// Evaluates one dependency. `index` holds the counts of arrays: State's, or the one being built.
Held holds(const State& state, const spec::After& after, const Index& index);

// Returns the counts for a condition on an array; nullptr if the array was removed.
const AllOf* all_of(const Index& index, const spec::After& after);

// Returns the job that decides a dependency on a single job: the named job, or its export once that
// is queued. Not for dependencies on arrays.
JobId awaited(const State& state, const spec::After& after);

// True if the dependency's result may still change: its job has not ended, or its export is
// pending.
bool may_change(const State& state, const spec::After& after, const Index& index);

// Returns whether the job has not ended. False for a removed job, because only jobs that nothing
// waits for are removed.
bool is_open(const State& state, JobId id);

// Returns the worst result among a job's `after`; Never is the worst, then Not, then Yes.
Held dependencies(const State& state, const Job& job, const Index& index);

// True if a dependency leads to `wanted`, directly or not. An open group waits for its jobs.
bool lead_to(const State& state, const std::vector<spec::After>& afters, JobId wanted);

// Returns the first `after` of the job that can no longer be met; nullptr if none.
const spec::After* impossible(const State& state, const Job& job);

}  // namespace roll::core
