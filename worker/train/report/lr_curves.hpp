// Compares the learning rates of a resumed run with the rates of the job that wrote the checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/spec/train/train.hpp"

namespace roll::train {

// Returns the lines of a table of the learning rates of `before` and `now`, from the completed step
// `step` to the end of the longer run. The lines are a headline, the steps, the rates of `before`
// and the rates of `now`. If the warm-up is not over, a note follows. Returns no lines if the rates
// are equal at every later step that both runs have. Pure.
std::vector<std::string> changed_rates(const spec::TrainSpec& before, const spec::TrainSpec& now,
                                       std::int64_t step);

}  // namespace roll::train
