// Starts the job's optimizer from the state in a checkpoint of another run (model.optimizer).
#pragma once

#include <cstdint>
#include <filesystem>

#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Fills this rank's main weights and optimizer state from a checkpoint whose weights are loaded.
// Returns the number of updates that the optimizer has made. Throws RankFailure(invalid) if the
// checkpoint lacks a state that the job's optimizer has. Also throws it if the checkpoint's main
// weights do not round to its weights: then the state belongs to other weights, or was written in
// another order.
std::int64_t continue_optimizer(const std::filesystem::path& directory, TrainStep& step);

}  // namespace roll::train
