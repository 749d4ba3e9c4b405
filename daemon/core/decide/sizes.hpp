// Limits the total size of the jobs of a submission.
#pragma once

#include "common/error.hpp"
#include "common/spec/job/job.hpp"

namespace roll::core {

// Fails if `spec` makes jobs that are too large in total. `jobs` is the number of these jobs. Each
// of them holds the whole document of `spec`.
Result<void> check_copies(const spec::JobSpec& spec, std::size_t jobs);

}  // namespace roll::core
