// Compares a repeated submission with the job that the first submission queued.
#pragma once

#include "common/spec/job.hpp"

namespace roll::spec {

// Returns whether both specs describe the same job. Ignores the state of the git work tree, because
// a submission that is repeated after a commit still means the same job.
bool same_job(const JobSpec& a, const JobSpec& b);

}  // namespace roll::spec
