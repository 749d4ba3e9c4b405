// The values of Megatron's distributed optimizer that are not tensors.
#pragma once

#include <cstdint>

#include "common/json.hpp"

namespace roll::convert {

// Returns the optimizer's state dict without tensors, as Megatron's kind fully_reshardable stores
// it. `rates`: train.optimizer of the job that wrote the state; for missing keys, PyTorch's
// defaults are used. Megatron's scheduler replaces the rates before the next step. `updates`:
// number of updates that the optimizer has made.
Json optimizer_values(const Json& rates, std::int64_t updates);

}  // namespace roll::convert
