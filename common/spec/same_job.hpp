// Compares a repeated submission with the job that it was queued as.
#pragma once

#include "common/spec/job.hpp"

namespace roll::spec {

// Returns whether both are the same job. The state of the git work tree does not count, because a
// submission that is repeated after a commit still means the same job.
bool same_job(const JobSpec& a, const JobSpec& b);

}  // namespace roll::spec
