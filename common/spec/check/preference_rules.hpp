// Checks `objective` and the keys that depend on it. Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each key or loss in `objective` that this kind of objective does not
// support. Also returns a problem for each key elsewhere in the job that cannot be used with the
// objective. Ignores values of a wrong type, because the schema's checker reports them.
std::vector<Problem> preference_problems(const Json& document);

}  // namespace roll::spec
