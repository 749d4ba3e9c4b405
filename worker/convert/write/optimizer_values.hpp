// The values of Megatron's distributed optimizer that are not tensors.
#pragma once

#include <cstdint>
#include <string>

#include "common/json.hpp"

namespace roll::convert {

// Returns the state dict of Megatron's distributed optimizer without its tensors. `kind` is its
// sharding type, such as kFullyReshardable. `rates` is train.optimizer of the job that wrote the
// state. Missing keys have the default values of train.optimizer. Before the next step, Megatron's
// scheduler replaces the learning rates and the weight decay. `updates` is the number of updates
// that the optimizer has made.
Json optimizer_values(const Json& rates, std::int64_t updates, const std::string& kind);

}  // namespace roll::convert
