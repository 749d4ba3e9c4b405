// Evaluates the dependencies of jobs (`after`).
#pragma once

#include <vector>

#include "daemon/core/state/state.hpp"

namespace roll::core {

enum class Held { Not, Yes, Never };

// Evaluates one dependency. `index` has the counts for arrays. `index` is the index of `state`, or
// a new index that is being built.
Held holds(const State& state, const spec::After& after, const Index& index);

// Returns whether the job `task` of an array meets a condition that a dependency sets for all jobs
// of the array. A trial that successive halving stopped does not make its sweep fail.
Held holds_for_task(const State& state, JobId task, spec::After::Condition condition,
                    const Index& index);

// Returns the counts for a dependency on all jobs of an array; nullptr if the array was removed.
const AllOf* all_of(const Index& index, const spec::After& after);

// Returns the job whose end decides a dependency on a single job. Usually this is the job that the
// dependency names. If the dependency waits for the export of the named job, and the export job is
// already queued, this is the export job. Must not be called for a dependency on an array.
JobId awaited(const State& state, const spec::After& after);

// Returns whether the dependency's result may still change, because the named job or its export has
// not ended.
bool may_change(const State& state, const spec::After& after, const Index& index);

// Returns whether the job exists and has not ended. A job that does not exist was removed. Only
// jobs that have ended are removed.
bool is_open(const State& state, JobId id);

// Returns the worst result of the job's dependencies. From best to worst, the results are Yes
// (met), Not (not met yet) and Never.
Held dependencies(const State& state, const Job& job, const Index& index);

// Returns whether one of the dependencies leads to `wanted`, directly or through other jobs. An
// open group depends on the jobs in it.
bool lead_to(const State& state, const std::vector<spec::After>& afters, JobId wanted);

// Returns the first dependency of the job that can no longer be met; nullptr if there is none.
const spec::After* impossible(const State& state, const Job& job);

}  // namespace roll::core
