// Checks checkpoint.format. Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/problem.hpp"

namespace roll::spec {

// Returns a problem for each key that the checkpoint format torch_dist cannot be used with. Its
// files hold all weights and the two moments of Adam, as Megatron stores them.
std::vector<Problem> checkpoint_format_problems(const Json& document);

}  // namespace roll::spec
