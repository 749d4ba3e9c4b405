// Megatron's own checkpoints as a target: MCA's files with arguments in them, or the form before
// Megatron core.
#pragma once

#include <vector>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// The directory of weights without an iteration: Megatron then loads neither optimizer nor random
// states.
constexpr const char* kMegatronRelease = "release";

// Below version 3, writes nested dicts, the former names and that version's order of attention
// rows. Fails with InvalidArgument if the former models have no name for a tensor, or if there are
// query groups below version 2.
Result<std::vector<Stored>> megatron_layout(const Source& source, formats::McaConfig config,
                                            int version);

}  // namespace roll::convert
