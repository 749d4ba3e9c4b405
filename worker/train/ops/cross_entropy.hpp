// Computes the output layer and the loss in one operator, one block of rows at a time. Therefore,
// only one block of logits exists at a time. The gradient of a block overwrites the block's logits.
//
// M rows, C channels, V vocabulary. One call computes forward and backward, including the gradient
// of the weight, because all of these need the block's logits. With separate calls, the logits
// would have to be kept.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/train/ops/teacher.hpp"
#include "worker/train/ops/values.hpp"
#include "worker/train/ops/vocabulary_shard.hpp"

namespace roll::ops {

struct CrossEntropySaved {
    at::Tensor dx_MC;
};

// Terms that are added to the loss of a row. With p = softmax(l) and the target t, the row's loss
// is -(1 - label_smoothing) log p_t - label_smoothing mean(log p) + z_loss (log sum exp(l))^2
struct LossTerms {
    double label_smoothing = 0;
    double z_loss = 0;

    bool is_plain() const { return label_smoothing == 0 && z_loss == 0; }
};

// The output layer. It maps x_MC to logits l = x_MC @ w_VC^T. With a soft cap, the logits are cap *
// tanh(l / cap).
struct Head {
    at::Tensor w_VC;
    double soft_cap = 0;
    std::optional<VocabularyShard> shard = std::nullopt;  // nullopt: w_VC has the whole vocabulary
    LossTerms terms = {};
    // the teacher's predictions for the rows of x_MC
    std::optional<TeacherRows> teacher = std::nullopt;
};

at::Tensor logits(const at::Tensor& x_MC, const Head& head);  // returns the logits, [M, V]

// Returns the `k` most probable tokens of each row at a temperature.
TopTokens linear_top_tokens(const at::Tensor& x_MC, const Head& head, std::int64_t k,
                            double temperature);

// The tensor for the weight's gradient. The gradient overwrites dw_VC or is added to dw_VC. If
// dw_VC is undefined, the gradient is not computed. `input`: whether the gradient of x_MC is
// computed; if false, saved.dx_MC is undefined.
struct HeadGrad {
    at::Tensor dw_VC = {};
    Sum sum = Sum::Add;
    bool input = true;
};

// Returns scale times the sum over rows of -log softmax(logits)[target], including the terms of
// `head`, as a 0-dim double. `place` allocates the temporary block of logits.
//
// With a shard, each rank returns the loss over the whole vocabulary, but saved.dx_MC is only this
// shard's part of the gradient. The gradient is the sum of the parts of all shards.
at::Tensor linear_cross_entropy(const at::Tensor& x_MC, const Head& head,
                                const at::Tensor& targets_M, double scale, const HeadGrad& grad,
                                CrossEntropySaved& saved, const Place& place = {});

// Like linear_cross_entropy(), but with one factor for each row: `scale_M`, doubles on the CPU.
// Computes the gradient of the sum of scale_M[m] * loss(m) over the rows m. Returns no loss.
void linear_cross_entropy_grad(const at::Tensor& x_MC, const Head& head,
                               const at::Tensor& targets_M, const at::Tensor& scale_M,
                               const HeadGrad& grad, CrossEntropySaved& saved,
                               const Place& place = {});

// Returns -log softmax(logits)[target] of each row, including the terms of `head`, as doubles [M].
// The result is 0 for a row whose target is ignored.
at::Tensor linear_cross_entropy_rows(const at::Tensor& x_MC, const Head& head,
                                     const at::Tensor& targets_M);

// Like linear_cross_entropy(), but without `scale` and without gradients. Returns only the sum and
// saves nothing.
at::Tensor linear_cross_entropy_value(const at::Tensor& x_MC, const Head& head,
                                      const at::Tensor& targets_M);

}  // namespace roll::ops
