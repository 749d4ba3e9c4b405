// How backward adds its contributions to the gradients of parameters.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "worker/train/ops/values.hpp"

namespace roll::train {

// Adds a contribution to a parameter's gradient `grad`. The Sum argument says whether to overwrite
// the old gradient, as the first contribution of a step does, or to add to it.
using AddGrad = std::function<void(const at::Tensor& grad, ops::Sum)>;

// Called after a contribution to the gradient of `parameter` was added.
using GradReady = std::function<void(int parameter)>;

// Receives one contribution of backward to a parameter's gradient. Calling `add` adds the
// contribution.
using Contribute = std::function<void(int parameter, AddGrad add)>;

// Gives memory to gradients that exist only while contributions are added (ZeRO-2).
class GradStage {
  public:
    virtual ~GradStage() = default;
    // Makes the gradient of a parameter exist. Returns how to add the next contribution to it.
    virtual ops::Sum open(int parameter) = 0;
};

}  // namespace roll::train
