// Before a training job is queued, checks that the first records of the data files fit the
// objective, and that conversations have a chat template. The ranks make the same checks when they
// read the data, which may be hours later.
#pragma once

#include <vector>

#include "common/spec/job/job.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::cli {

// Returns a problem for each training or validation file whose first record does not have the
// fields that the objective reads. If the job's tokenizer has no chat template that Roll can read,
// also returns a problem for each file of conversations. Checks the job, and the jobs of its
// `then`. Ignores files and directories that this machine cannot read. Requires that all jobs have
// passed the other checks.
std::vector<spec::Problem> record_problems(const spec::JobSpec& job);

}  // namespace roll::cli
