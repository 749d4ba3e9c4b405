// Divides the layers among pipeline stages by their cost (`parallel.stages: cost`).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"

namespace roll::train {

// Divides the layers, in order, into `parts` parts. The output layer is in the last part, which
// may have no other layer; every other part has a layer. Returns the number of layers of each part.
// The costliest part is as cheap as possible. If several divisions of the first layers are equally
// good, takes the one with the smallest sum of the squares of the parts' costs. Requires parts <=
// layers + 1. Pure.
std::vector<std::int64_t> divided_by_cost(std::span<const double> layers, double output, int parts);

// Returns spec.parallel. If the job divides the layers by cost, the result has a pipeline_layout
// with the chosen division instead. The cost of a layer is the FLOPs of its forward and backward;
// the last part also has those of the output layer.
spec::ParallelSpec with_stages(const spec::TrainSpec& spec, const spec::ModelConfig& config);

}  // namespace roll::train
