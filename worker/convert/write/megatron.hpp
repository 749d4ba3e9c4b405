// Writes Megatron's own checkpoints. From version 3 on, their files equal those of an MCA
// checkpoint, with the run's arguments added. Before version 3, they have the names and nested
// dicts of models older than Megatron core.
#pragma once

#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Name of the directory for weights that belong to no iteration. From this directory, Megatron
// loads neither optimizer state nor random states.
constexpr const char* kMegatronRelease = "release";

// Returns the target's tensors. `version` is the checkpoint version. If it is below 3, the tensors
// are in nested dicts, and their names and the order of attention rows are those of that version.
//
// Fails with InvalidArgument in these cases:
// - `version` is below 3, and a tensor has no name in models older than Megatron core.
// - `version` is below 3, and num_query_groups is not divisible by tp.
// - `version` is below 2, and the model has query groups.
Result<std::vector<Stored>> megatron_layout(const Source& source, formats::McaConfig config,
                                            int version);

}  // namespace roll::convert
