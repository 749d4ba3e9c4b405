// Computes the output layer and the loss in one operator, one block of rows at a time. So only one
// block of logits exists at a time, and its gradient overwrites it.
//
// M rows, C channels, V vocabulary. One call does forward and backward, because both need the
// block's logits. The call also computes the weight's gradient, because computing it later would
// require keeping the logits.
#pragma once

#include <cstdint>

#include "worker/train/ops/values.hpp"

namespace roll::ops {

struct CrossEntropySaved {
    at::Tensor dx_MC;
};

// The output layer, which maps x_MC to logits: l = x_MC @ w_VC^T, or with a soft cap, cap * tanh(l
// / cap).
struct Head {
    at::Tensor w_VC;
    double soft_cap = 0;
};

at::Tensor logits(const at::Tensor& x_MC, const Head& head);  // returns the logits, [M, V]

// The tensor in which the weight's gradient is summed. If dw_VC is undefined, the gradient is not
// computed.
struct HeadGrad {
    at::Tensor dw_VC;
    Sum sum = Sum::Add;
};

// Returns scale times the sum over rows of -log softmax(logits)[target], a 0-dim double. `place`
// allocates the temporary block of logits.
at::Tensor linear_cross_entropy(const at::Tensor& x_MC, const Head& head,
                                const at::Tensor& targets_M, double scale, const HeadGrad& grad,
                                CrossEntropySaved& saved, const Place& place = {});

// Like linear_cross_entropy(), without `scale` and gradients: returns only the sum and saves
// nothing.
at::Tensor linear_cross_entropy_value(const at::Tensor& x_MC, const Head& head,
                                      const at::Tensor& targets_M);

}  // namespace roll::ops
