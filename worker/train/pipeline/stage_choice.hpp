// Divides the layers among pipeline stages by their cost (`parallel.stages: cost`).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"

namespace roll::train {

// Divides the layers, in order, into `parts` parts. The output layer is in the last part. The last
// part may have no other layer, but every other part has a layer. Returns the number of layers of
// each part. The costliest part is as cheap as possible. If divisions of the first layers are
// equally good, takes the division with the smallest sum of squared costs. Requires parts <= layers
// + 1. Pure.
std::vector<std::int64_t> divided_by_cost(std::span<const double> layers, double output, int parts);

// Returns spec.parallel. If spec.parallel requests stages by cost, replaces this request by a
// pipeline_layout. The cost of a layer is the FLOPs of its forward and backward; the cost of the
// last part includes the output layer.
spec::ParallelSpec with_stages(const spec::TrainSpec& spec, const spec::ModelConfig& config);

}  // namespace roll::train
