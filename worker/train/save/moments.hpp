// Reads the optimizer state of a checkpoint. Any layout may have written the checkpoint.
#pragma once

#include <filesystem>

#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Fills this rank's optimizer state and sets the number of updates. Reads only the stored blocks
// (StoredBox) that overlap the rank's rows. Parameters that were frozen in the checkpoint's job
// start with zero state. Throws RankFailure(invalid) if the checkpoint has another kind of
// optimizer, if a parameter has another shape or type, or if an element is in no block.
void read_moments(const std::filesystem::path& checkpoint, TrainStep& step);

}  // namespace roll::train
