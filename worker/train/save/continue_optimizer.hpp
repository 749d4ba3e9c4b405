// Continues the optimizer of another run, whose checkpoint the job starts from (model.optimizer).
#pragma once

#include <cstdint>
#include <filesystem>

#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Fills this rank's main weights and optimizer state from a checkpoint whose weights are loaded.
// Returns the number of updates that the optimizer has made. Throws RankFailure(invalid) if a state
// that the job's optimizer has is missing, or if the main weights are not those of the checkpoint's
// weights, which shows that the state belongs to other weights or was written in another order.
std::int64_t continue_optimizer(const std::filesystem::path& directory, TrainStep& step);

}  // namespace roll::train
