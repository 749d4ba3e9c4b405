// Rules of the validation sets of a job file.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Checks the names of validation sets, and that at most one set is a fraction of the training
// files.
std::vector<Problem> valid_set_problems(const Json& document);

}  // namespace roll::spec
