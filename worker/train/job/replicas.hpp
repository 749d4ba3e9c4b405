// Compares the state that several data-parallel ranks hold as copies. Correct copies are bitwise
// equal, so a difference is a sign of damaged memory, a bad processor or a bug.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Returns ranks as text: "rank 2", "ranks 0, 1 and 3". `ranks` must not be empty.
std::string ranks_text(const std::vector<int>& ranks);

// Compares the weights of all replicas. If each replica has the whole optimizer state, also
// compares this state. Returns a sentence that names the first tensor whose copies differ, and the
// ranks; nullopt if all copies are bitwise equal. `ranks`: for each rank of the dp group, its
// number in the job. All ranks of the dp group must call this function, and all get the same
// result.
std::optional<std::string> replica_difference(TrainStep& step, const std::vector<int>& ranks);

}  // namespace roll::train
