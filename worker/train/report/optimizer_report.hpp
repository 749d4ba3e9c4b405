// The optimizer's part of the plan report.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Returns the bytes of the optimizer's state of the whole model, by kind of state.
OrderedJson optimizer_json(const spec::TrainSpec& spec,
                           const std::vector<ParameterSpec>& parameters);

// Returns what optimizer_json() returned as a line of text.
std::string optimizer_text(const OrderedJson& optimizer);

}  // namespace roll::train
