// Checks the key `model` of a train job that starts from another model. Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each key of `model` that cannot be combined with model.from. If model.from
// is not set, also returns a problem for each key that needs model.from.
std::vector<Problem> model_source_problems(const Json& document);

}  // namespace roll::spec
