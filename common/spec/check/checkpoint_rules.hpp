// Checks checkpoint.format, checkpoint.every and export.every. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"
#include "common/spec/train/train.hpp"

namespace roll::spec {

// Returns a problem for each key that cannot be used together with checkpoint.format torch_dist.
// Files of this format store all weights and the two moments of Adam, as Megatron's files do.
std::vector<Problem> checkpoint_format_problems(const Json& document);

// Returns a problem if the job exports checkpoints during training, but saves none.
std::vector<Problem> export_problems(const Json& document);

// Returns a warning if the training saves no checkpoint before its last step; empty otherwise.
std::string unsaved_warning(const TrainSpec& spec);

}  // namespace roll::spec
