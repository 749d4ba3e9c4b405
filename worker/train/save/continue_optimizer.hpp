// Starts the job's optimizer from the state in a checkpoint of another run (model.optimizer).
#pragma once

#include <cstdint>
#include <filesystem>

#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Fills this rank's optimizer state from a checkpoint. Returns the number of updates that the
// optimizer has made. The state of a parameter that a job of Roll has frozen begins at 0. Throws
// RankFailure(invalid) if a state that the job's optimizer has is missing.
std::int64_t read_states(const std::filesystem::path& directory, TrainStep& step);

// Fills this rank's main weights and optimizer state from a checkpoint whose weights are loaded.
// Returns and throws as read_states(). Also throws RankFailure(invalid) if the optimizer's main
// weights do not round to the loaded weights. In that case, the state belongs to other weights or
// was written in another order.
std::int64_t continue_optimizer(const std::filesystem::path& directory, TrainStep& step);

}  // namespace roll::train
