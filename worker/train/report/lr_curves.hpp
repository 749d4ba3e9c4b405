// Compares the learning rates of a resumed run with those of the job that wrote the checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/spec/train.hpp"

namespace roll::train {

// Returns a table that compares both learning-rate curves, from the completed step `step` to the
// end of the longer run. The lines are a headline, the steps, the rates before, the rates now,
// and, if the warm-up is not over, a note. Empty if both runs have the same rate at each common
// step from `step` on. Pure.
std::vector<std::string> changed_rates(const spec::TrainSpec& before, const spec::TrainSpec& now,
                                       std::int64_t step);

}  // namespace roll::train
