// Checks the jobs of a chain (chain.hpp). Pure.
#pragma once

#include <vector>

#include "common/spec/job/job.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each reference to an unknown job, and for arrays or chains inside a chain.
std::vector<Problem> check_chain(const JobSpec& first);

}  // namespace roll::spec
