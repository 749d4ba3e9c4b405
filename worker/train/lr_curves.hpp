// What a resumed run's learning rate is beside the one that its checkpoint's job would have had.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/spec/train.hpp"

namespace roll::train {

// Both curves from step `step`, which is done, to the end of the longer run, as the lines of a
// table: a headline, steps, rates before, rates now; a line about a warm-up that is not over.
// Empty if each step from `step` on that both have has the same rate in both. Pure.
std::vector<std::string> changed_rates(const spec::TrainSpec& before, const spec::TrainSpec& now,
                                       std::int64_t step);

}  // namespace roll::train
