// Checks the section `resources` of a job file. Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each broken rule that the schema cannot express. For example, the size of a
// segment must divide the number of nodes, and not every fraction of a GPU is allowed.
std::vector<Problem> check_resources(const Json& document);

}  // namespace roll::spec
