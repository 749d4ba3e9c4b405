// Reduces the layers of a model to the smallest number that its pipeline and its kinds of layers
// need. Pure.
#pragma once

#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"

namespace roll::train {

// Reduces the layers of `config`, and the layers of the first and the last stage of spec.parallel.
// Replaces the patterns of frozen and decayed parameters by names, because the numbers of the
// layers change. `from` is the layout of the whole model; spec.parallel may have fewer stages.
void cut_layers(spec::TrainSpec& spec, spec::ModelConfig& config, const spec::ParallelSpec& from);

}  // namespace roll::train
