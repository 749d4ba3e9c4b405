// Lists the tensors among the values that forward saves for backward, for saved_store.hpp.
#pragma once

#include <vector>

#include "worker/train/model/decoder_layer.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {

// Return pointers to all tensors, always in the same order. Some tensors may be undefined.
std::vector<at::Tensor*> values_of(LayerSaved& saved);
std::vector<at::Tensor*> values_of(ops::RmsNormSaved& norm, ops::CrossEntropySaved& loss);

}  // namespace roll::train
