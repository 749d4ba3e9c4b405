// Before a training job is queued, checks the pipeline schedule in its parallel.schedule_file.
#pragma once

#include <string_view>
#include <vector>

#include "common/spec/schema/problem.hpp"

namespace roll::cli {

// Returns a problem if the schedule cannot be read, if work is missing or repeated, or if the ranks
// would wait for each other for ever. `document` is the document of a job that check_job()
// accepted. Other jobs have no problem.
std::vector<spec::Problem> schedule_problems(std::string_view document);

}  // namespace roll::cli
