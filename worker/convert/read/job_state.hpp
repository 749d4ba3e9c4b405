// Reads a state of the optimizer from a checkpoint of a training job. The trainer stores it under
// the names and shapes of the native tensors. The checkpoint of a LoRA job also has the average of
// the adapter as an adapter.
#pragma once

#include <filesystem>
#include <string>

#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

inline constexpr const char* kAverageState = "ema";  // the average of the weights (train.ema)

// Replaces the weights of an opened MCA source by the state source.state. If the state is
// kMainWeights, the weights stay, because they are the main weights. If it is kAverageState,
// weights that the job has not trained stay. For any other state, weights without the state are
// left out if the source's strictness allows that. Fails with InvalidArgument if the checkpoint
// does not have source.state. Fails with Corrupt if a state lacks an element of its weight or has
// it twice.
Result<void> read_job_state(Source& source);

// Returns the directory of the averaged adapter in `directory`, the checkpoint of a LoRA job. Fails
// with InvalidArgument if the checkpoint has none, or if `state` is not kAverageState.
Result<std::filesystem::path> averaged_adapter(const std::filesystem::path& directory,
                                               const std::string& state);

}  // namespace roll::convert
