// Types for adding the contributions of backward to the gradients of parameters.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "worker/train/ops/values.hpp"

namespace roll::train {

// A function that adds one contribution to a parameter's gradient `grad`. The Sum argument says
// whether to overwrite the old gradient (for the first contribution of a step) or to add to it.
using AddGrad = std::function<void(const at::Tensor& grad, ops::Sum)>;

// A function that is called after a contribution to the gradient of `parameter` was added.
using GradReady = std::function<void(int parameter)>;

// A function that receives one contribution of backward to a parameter's gradient. A call of `add`
// adds this contribution to the gradient.
using Contribute = std::function<void(int parameter, AddGrad add)>;

// Provides memory for gradients that exist only while contributions are added to them (ZeRO-2).
class GradStage {
  public:
    virtual ~GradStage() = default;
    // Allocates the gradient of a parameter if there is none. Returns whether the next contribution
    // replaces the gradient or is added to it.
    virtual ops::Sum open(int parameter) = 0;
};

}  // namespace roll::train
