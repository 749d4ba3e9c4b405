// Compares a resumed run's learning rate with the one that the checkpoint's job would have had.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/spec/train.hpp"

namespace roll::train {

// Returns the lines of a table with both curves, from the completed step `step` to the end of the
// longer run: a headline, the steps, the rates before, the rates now, and a line if the warm-up is
// not over. Empty if both runs have the same rate at each common step from `step` on. Pure.
std::vector<std::string> changed_rates(const spec::TrainSpec& before, const spec::TrainSpec& now,
                                       std::int64_t step);

}  // namespace roll::train
