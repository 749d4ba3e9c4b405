// Limits the total size of the jobs of a submission.
#pragma once

#include "common/error.hpp"
#include "common/spec/job/job.hpp"

namespace roll::core {

// Fails if the total size of `jobs` jobs made from `spec` would be too large. Each of these jobs
// holds the whole document.
Result<void> check_copies(const spec::JobSpec& spec, std::size_t jobs);

}  // namespace roll::core
