// Before jobs are queued, warns about trainings that save no checkpoint before their last step.
#pragma once

#include <string>
#include <vector>

#include "common/spec/job/job.hpp"

namespace roll::cli {

// Returns the warning of spec::unsaved_warning() for each training of the jobs and of their chains.
// A job with a time limit of at most an hour has no warning, because it has little to lose.
std::vector<std::string> unsaved_warnings(const std::vector<spec::JobSpec>& jobs);

}  // namespace roll::cli
