// Writes Megatron's own checkpoints. Their files either equal MCA's files with the run's arguments
// added, or have the form of models before Megatron core.
#pragma once

#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Name of the directory for weights that belong to no iteration. From this directory, Megatron
// loads neither optimizer state nor random states.
constexpr const char* kMegatronRelease = "release";

// Returns the target's tensors. If `version` is below 3, the tensors are in nested dicts. Their
// names and the order of their attention rows are then as in Megatron's checkpoints of that
// version. Fails with InvalidArgument if models before Megatron core have no name for a tensor.
// Also fails with InvalidArgument if the model has query groups and `version` is below 2.
Result<std::vector<Stored>> megatron_layout(const Source& source, formats::McaConfig config,
                                            int version);

}  // namespace roll::convert
