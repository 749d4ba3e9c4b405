// Checks train.loss_scale. Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each rule that train.loss_scale breaks.
std::vector<Problem> loss_scale_problems(const Json& document);

}  // namespace roll::spec
