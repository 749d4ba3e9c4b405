// Cuts the layers of a model to the least that its pipeline and its kinds of layers need. Pure.
#pragma once

#include "common/spec/model.hpp"
#include "common/spec/train.hpp"

namespace roll::train {

// Cuts the layers of `config`, and those of the first and the last stage of spec.parallel. Rewrites
// the patterns of frozen and decayed parameters as names, because layers get other numbers. `from`
// is the layout of the whole model; spec.parallel may have fewer stages.
void cut_layers(spec::TrainSpec& spec, spec::ModelConfig& config, const spec::ParallelSpec& from);

}  // namespace roll::train
