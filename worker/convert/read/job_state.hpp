// Reads a state of the optimizer from a checkpoint of a training job. The trainer stores it under
// the names and shapes of the native tensors. The checkpoint of a LoRA job also has the average of
// the adapter as an adapter.
#pragma once

#include <filesystem>
#include <string>

#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

inline constexpr const char* kAverageState = "ema";  // the average of the weights (train.ema)

// Replaces the weights of an opened MCA source by the state source.state. The main weights
// (kMainWeights) are the weights themselves. Weights without an average, which the job has not
// trained, stay as they are; weights without another state are left out if the source's strictness
// allows that. Fails with InvalidArgument if the checkpoint has no such state, and with Corrupt if
// a state does not have every element of its weight exactly once.
Result<void> read_job_state(Source& source);

// Returns the directory of the averaged adapter in `directory`, the checkpoint of a LoRA job. Fails
// with InvalidArgument if the checkpoint has none, or if `state` is not kAverageState.
Result<std::filesystem::path> averaged_adapter(const std::filesystem::path& directory,
                                               const std::string& state);

}  // namespace roll::convert
