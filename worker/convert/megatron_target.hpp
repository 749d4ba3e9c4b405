// Megatron's own checkpoints as a target: MCA's files with the run's arguments in them, or the form
// of models before Megatron core.
#pragma once

#include <vector>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Name of the directory for weights that belong to no iteration. From it, Megatron loads neither
// optimizer nor random states.
constexpr const char* kMegatronRelease = "release";

// Returns the target's tensors. Below version 3, they are in nested dicts, with the former names
// and that version's order of attention rows. Fails with InvalidArgument if the former models have
// no name for a tensor, or if the model has query groups and the version is below 2.
Result<std::vector<Stored>> megatron_layout(const Source& source, formats::McaConfig config,
                                            int version);

}  // namespace roll::convert
