// Checks train.optimizer. Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each key of train.optimizer that the optimizer's kind does not have, and
// for each group that sets nothing or sets both lr and lr_scale. Ignores values of a wrong type,
// because the schema's checker reports them.
std::vector<Problem> optimizer_problems(const Json& document);

}  // namespace roll::spec
