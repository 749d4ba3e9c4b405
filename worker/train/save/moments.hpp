// Reads the optimizer state of a checkpoint that any layout wrote.
#pragma once

#include <filesystem>

#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Fills this rank's state and sets the number of updates. Reads only the stored boxes that meet
// the rank's rows. Parameters that the checkpoint's job had frozen start with a state of zeros.
// Throws RankFailure(invalid) if the checkpoint is of another kind of optimizer, if a parameter has
// another shape or type, or if elements of it are in no box.
void read_moments(const std::filesystem::path& checkpoint, TrainStep& step);

}  // namespace roll::train
