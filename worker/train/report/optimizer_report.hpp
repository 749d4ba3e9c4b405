// The section of the plan report about the optimizer.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train/train.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Returns the size in bytes of the whole model's optimizer state, by kind of state.
OrderedJson optimizer_json(const spec::TrainSpec& spec,
                           const std::vector<ParameterSpec>& parameters);

// Returns the result of optimizer_json() as a line of text.
std::string optimizer_text(const OrderedJson& optimizer);

}  // namespace roll::train
