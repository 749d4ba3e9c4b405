// Computes the output layer and the loss in one operator, one block of rows at a time. Only one
// block of logits therefore exists at a time, and the block's gradient overwrites it.
//
// M rows, C channels, V vocabulary. One call does both forward and backward, because both need
// the block's logits. It also computes the weight's gradient, because the logits would otherwise
// have to be kept.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "worker/train/ops/values.hpp"

namespace roll::ops {

struct CrossEntropySaved {
    at::Tensor dx_MC;
};

// The part of the vocabulary that this rank's output layer has: tokens [begin, begin + count).
// Further rows of the weight are padding, which gets no probability.
struct VocabularyShard {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    std::int64_t vocab = 0;  // number of tokens of all shards
    // Exchanges a tensor with the other shards: returns the tensors of all shards, [shards, R,
    // N], in the order of the shards. Called once for each block of rows.
    std::function<at::Tensor(const at::Tensor& own_RN)> gather;
};

// Terms that are added to the loss of a row. With p = softmax(l) and the target t, its loss is
//   -(1 - label_smoothing) log p_t - label_smoothing mean(log p) + z_loss (log sum exp(l))^2
struct LossTerms {
    double label_smoothing = 0;
    double z_loss = 0;

    bool is_plain() const { return label_smoothing == 0 && z_loss == 0; }
};

// The output layer, which maps x_MC to logits l = x_MC @ w_VC^T. With a soft cap, the logits are
// cap * tanh(l / cap).
struct Head {
    at::Tensor w_VC;
    double soft_cap = 0;
    std::optional<VocabularyShard> shard = std::nullopt;  // nullopt: w_VC has the whole vocabulary
    LossTerms terms = {};
};

at::Tensor logits(const at::Tensor& x_MC, const Head& head);  // returns the logits, [M, V]

// The tensor to which the weight's gradient is written or added. If dw_VC is undefined, the
// gradient is not computed.
struct HeadGrad {
    at::Tensor dw_VC;
    Sum sum = Sum::Add;
};

// Returns scale times the sum over rows of -log softmax(logits)[target], with the head's terms, a
// 0-dim double. `place` allocates the temporary block of logits.
//
// With a shard, each rank returns the loss over the whole vocabulary, but saved.dx_MC is only
// this shard's part of the gradient; the sum over all shards is the gradient.
at::Tensor linear_cross_entropy(const at::Tensor& x_MC, const Head& head,
                                const at::Tensor& targets_M, double scale, const HeadGrad& grad,
                                CrossEntropySaved& saved, const Place& place = {});

// Like linear_cross_entropy(), with a factor for each row: `scale_M`, doubles on the CPU. Computes
// the gradient of the sum over rows of scale times loss, and returns no loss.
void linear_cross_entropy_grad(const at::Tensor& x_MC, const Head& head,
                               const at::Tensor& targets_M, const at::Tensor& scale_M,
                               const HeadGrad& grad, CrossEntropySaved& saved,
                               const Place& place = {});

// Returns -log softmax(logits)[target] of each row, with the head's terms, doubles [M]; 0 if the
// target is ignored.
at::Tensor linear_cross_entropy_rows(const at::Tensor& x_MC, const Head& head,
                                     const at::Tensor& targets_M);

// Like linear_cross_entropy(), without `scale` and gradients: returns only the sum and saves
// nothing.
at::Tensor linear_cross_entropy_value(const at::Tensor& x_MC, const Head& head,
                                      const at::Tensor& targets_M);

}  // namespace roll::ops
