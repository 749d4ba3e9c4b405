// Megatron's own checkpoints as a target: MCA's files, with arguments in them, or as they were
// before Megatron's core.
#pragma once

#include <vector>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// The directory of weights that belong to no iteration: Megatron then asks for neither an optimizer
// nor random states.
constexpr const char* kMegatronRelease = "release";

// Below version 3: nested dicts, the former names, and attention's rows as that version orders
// them. InvalidArgument: a tensor for which the former models have no name, query groups below
// version 2.
Result<std::vector<Stored>> megatron_layout(const Source& source, formats::McaConfig config,
                                            int version);

}  // namespace roll::convert
