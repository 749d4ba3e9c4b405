// Reads an optimizer state from a checkpoint of a Roll training job. The trainer stores the state
// under the names and shapes of the native tensors. For a LoRA job, the checkpoint also has a
// second adapter: the moving average of the trained adapter.
#pragma once

#include <filesystem>
#include <string>

#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// name of the state that holds the moving average of the weights (train.ema)
inline constexpr const char* kAverageState = "ema";

// Replaces the weights of an opened MCA source by the optimizer state source.state:
// - kMainWeights: changes nothing, because the checkpoint's weights are the main weights.
// - kAverageState: replaces the weights that have an average. The job has not trained the other
//   weights, so they stay as they are.
// - any other state: replaces the weights that have this state, and removes the other weights. A
//   weight without the state is an error, unless the source's strictness allows it.
//
// Fails with InvalidArgument if the checkpoint does not have source.state. Fails with Corrupt if
// the state of a weight lacks an element or has an element twice.
Result<void> read_job_state(Source& source);

// Returns the directory of the averaged adapter in `directory`, the checkpoint of a LoRA job. Fails
// with InvalidArgument if the checkpoint has no averaged adapter, or if `state` is not
// kAverageState.
Result<std::filesystem::path> averaged_adapter(const std::filesystem::path& directory,
                                               const std::string& state);

}  // namespace roll::convert
