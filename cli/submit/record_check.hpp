// Before a training job is queued, checks that the first records of its files fit its objective,
// and that its conversations have a chat template. The ranks make the same checks when they read
// the data, which may be hours later.
#pragma once

#include <vector>

#include "common/spec/job/job.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::cli {

// Returns a problem for each training and validation file whose first record does not have the
// fields that the objective reads, and for each file of conversations if the tokenizer of the job
// has no chat template or one that Roll cannot read. Checks the job, and the jobs of its `then`.
// Ignores files and directories that this machine cannot read. All jobs have passed the other
// checks.
std::vector<spec::Problem> record_problems(const spec::JobSpec& job);

}  // namespace roll::cli
