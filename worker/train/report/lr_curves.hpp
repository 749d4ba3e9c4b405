// Compares a resumed run's learning rates with those that the checkpoint's job would have used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/spec/train.hpp"

namespace roll::train {

// Returns the lines of a table with both learning-rate curves, from the completed step `step` to
// the end of the longer run. The lines are a headline, the steps, the rates before, the rates now,
// and a note if the warm-up is not over. Empty if both runs have the same rate at each common step
// from `step` on. Pure.
std::vector<std::string> changed_rates(const spec::TrainSpec& before, const spec::TrainSpec& now,
                                       std::int64_t step);

}  // namespace roll::train
