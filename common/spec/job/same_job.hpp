// Compares a repeated submission with the job that the first submission queued.
#pragma once

#include "common/spec/job/job.hpp"

namespace roll::spec {

// Returns whether both specs describe the same job. Ignores the recorded state of the git work
// tree, because the user may have committed changes between the two submissions.
bool same_job(const JobSpec& a, const JobSpec& b);

}  // namespace roll::spec
