// Compares the state that data-parallel ranks hold in several copies. Equal ranks stay bitwise
// equal, so a difference shows damaged memory, a bad processor or a bug.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Returns a sentence that names the first tensor of which replicas have different copies, and the
// ranks; nullopt if all copies are bitwise equal. Looks at weights and, unless the ranks share
// them, at moments. `ranks`: the numbers of the group's ranks in the job. All ranks of the dp group
// must call it, and all get the same result.
std::optional<std::string> replica_difference(TrainStep& step, const std::vector<int>& ranks);

}  // namespace roll::train
