// Reads the average of the weights (train.ema) of a training job's checkpoint. The trainer stores
// it with the optimizer's state, under the names and shapes of the native tensors. The checkpoint
// of a LoRA job also has the average of the adapter as an adapter.
#pragma once

#include <filesystem>
#include <string>

#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

inline constexpr const char* kAverageState = "ema";  // the value of convert.state

// Replaces the weights of an opened MCA source by their average. Weights without an average, which
// the job has not trained, stay as they are. Fails with InvalidArgument if the checkpoint has no
// average, and with Corrupt if an average does not have every element of its weight exactly once.
Result<void> read_average(Source& source);

// Returns the directory of the averaged adapter in `directory`, the checkpoint of a LoRA job. Fails
// with InvalidArgument if the checkpoint has none, or if `state` is not kAverageState.
Result<std::filesystem::path> averaged_adapter(const std::filesystem::path& directory,
                                               const std::string& state);

}  // namespace roll::convert
