// The output layer and its loss in one operator, a block of rows at a time: logits exist for one
// block only, and become their own gradient in place.
//
// M rows, C channels, V vocabulary. Forward and backward are one call, because whoever has the
// block's logits has everything that both need; the weight gradient is not split off for the
// same reason (keeping it for later would keep the logits).
#pragma once

#include <cstdint>

#include "worker/train/ops/place.hpp"
#include "worker/train/ops/sum.hpp"

namespace roll::ops {

inline constexpr std::int64_t kIgnored = -100;  // the target of a row that does not count

struct CrossEntropySaved {
    at::Tensor dx_MC;
};

// How logits come from x_MC: l = x_MC @ w_VC^T, and with a soft cap, cap * tanh(l / cap).
struct Head {
    at::Tensor w_VC;
    double soft_cap = 0;
};

at::Tensor logits(const at::Tensor& x_MC, const Head& head);  // [M, V]

// Where the weight's gradient goes; an undefined dw_VC asks for none.
struct HeadGrad {
    at::Tensor dw_VC;
    Sum sum = Sum::Add;
};

// scale * the sum over rows of -log softmax(logits)[target]; a 0-dim double. `place` is for a
// block of logits, which nobody needs afterwards.
at::Tensor linear_cross_entropy(const at::Tensor& x_MC, const Head& head,
                                const at::Tensor& targets_M, double scale, const HeadGrad& grad,
                                CrossEntropySaved& saved, const Place& place = {});

// The same sum without a scale, a gradient or anything saved.
at::Tensor linear_cross_entropy_value(const at::Tensor& x_MC, const Head& head,
                                      const at::Tensor& targets_M);

}  // namespace roll::ops
