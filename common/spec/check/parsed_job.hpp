// The result of checking a job file.
#pragma once

#include <vector>

#include "common/spec/job/job.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// The result of parsing a job file: the job, or all problems of the file.
struct ParsedJob {
    JobSpec spec;
    std::vector<Problem> problems;
    bool ok() const { return problems.empty(); }
};

}  // namespace roll::spec
