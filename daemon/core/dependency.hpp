// Whether what a job waits for has come.
#pragma once

#include <vector>

#include "daemon/core/state.hpp"

namespace roll::core {

enum class Held { Not, Yes, Never };

// Whether this one holds. `index` counts for arrays: State's, unless that is being made.
Held holds(const State& state, const spec::After& after, const Index& index);

// What is counted of a condition on an array; null: its jobs are forgotten.
const AllOf* all_of(const Index& index, const spec::After& after);

// The job on whose end one that names no array hangs: the one that it names, or that one's export
// once it is queued.
JobId awaited(const State& state, const spec::After& after);

// Whether more may come of a condition: its job is not over, or its export is to be waited for.
bool may_change(const State& state, const spec::After& after, const Index& index);

// False too for a job that is forgotten: only what nobody waits for is.
bool is_open(const State& state, JobId id);

// The worst of all of a job's `after`: Never, then Not, then Yes.
Held dependencies(const State& state, const Job& job, const Index& index);

// Whether one of these waits for `wanted`, by whatever way: an open job waits for what is in it.
bool lead_to(const State& state, const std::vector<spec::After>& afters, JobId wanted);

// The first `after` of the job that can no longer hold.
const spec::After* impossible(const State& state, const Job& job);

}  // namespace roll::core
