// Functions that read State through its index. Several rules use them.
#pragma once

#include <set>
#include <vector>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Returns the array tasks that count differently in Index::arrays when job `id` changes: the job
// itself, if it is a task of an array, and the task whose model the job exports.
std::vector<JobId> tasks_at(const State& state, JobId id);

// Returns when the job ended; Time{} if it has not ended or was removed.
Time ended_at(const State& state, JobId id);

// Returns when a queued job may start: the later of its begin time and the end of its back-off.
Time due_at(const Job& job);

// Returns the time since which a ready job has waited only for capacity: the latest of its
// submission, its due time, its requeueing and the end of its dependencies.
Time ready_since(const State& state, const Job& job, const Index& index);

// Returns the jobs with an attempt that holds resources of the worker. A job counts until its
// attempt has ended, even if its part on this worker has ended before.
const std::set<JobId>& jobs_on(const State& state, WorkerId worker);
// Returns whether some attempt has a member on the worker that has not ended.
bool is_busy(const State& state, WorkerId worker);

}  // namespace roll::core
