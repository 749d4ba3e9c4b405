// Checks train.spike and the phases of train.faults. Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each rule that train.spike or train.faults breaks.
std::vector<Problem> bad_step_problems(const Json& document);

}  // namespace roll::spec
