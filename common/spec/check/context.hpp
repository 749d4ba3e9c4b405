// Checks that a job's objective can be trained with context parallelism. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem if ranks share each sequence (`cp` above 1) but the objective compares values
// of whole sequences. `objective`: the objective's name in a job file.
std::vector<Problem> context_problems(std::int64_t cp, const std::string& objective);

}  // namespace roll::spec
