// The values of Megatron's distributed optimizer that are not tensors.
#pragma once

#include "common/json.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/convert/read/all_states.hpp"

namespace roll::convert {

// Returns the optimizer's state dict without tensors, as Megatron's kind fully_reshardable stores
// it. The rates are those of the job that wrote the source, or PyTorch's defaults. Megatron's
// scheduler replaces them before the next step.
Json optimizer_values(const Source& source, const OptimizerStates& states);

}  // namespace roll::convert
