// Checks checkpoint.format and export.every. Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each key that cannot be used together with checkpoint.format torch_dist.
// Files of this format store all weights and the two moments of Adam, as Megatron's files do.
std::vector<Problem> checkpoint_format_problems(const Json& document);

// Returns a problem if the job exports checkpoints during training, but saves none.
std::vector<Problem> export_problems(const Json& document);

}  // namespace roll::spec
