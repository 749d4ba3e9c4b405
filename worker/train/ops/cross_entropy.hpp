// Computes the output layer and the loss in one operator, one block of rows at a time. So only one
// block of logits exists at a time, and its gradient overwrites it.
//
// M rows, C channels, V vocabulary. One call does forward and backward, because both need the
// block's logits. The call also computes the weight's gradient, because computing it later would
// require keeping the logits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "worker/train/ops/values.hpp"

namespace roll::ops {

struct CrossEntropySaved {
    at::Tensor dx_MC;
};

// The part of a vocabulary that this rank's output layer has: tokens [begin, begin + count).
// Further rows of the weight are padding, which takes no probability.
struct VocabularyShard {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    // Returns the tensors that all shards pass, [shards, R, 3], in the order of the shards. Called
    // once for each block of rows.
    std::function<at::Tensor(const at::Tensor& own_R3)> gather;
};

// The output layer, which maps x_MC to logits l = x_MC @ w_VC^T. With a soft cap, the logits are
// cap * tanh(l / cap).
struct Head {
    at::Tensor w_VC;
    double soft_cap = 0;
    std::optional<VocabularyShard> shard = std::nullopt;  // nullopt: w_VC has the whole vocabulary
};

at::Tensor logits(const at::Tensor& x_MC, const Head& head);  // returns the logits, [M, V]

// The tensor in which the weight's gradient is summed. If dw_VC is undefined, the gradient is not
// computed.
struct HeadGrad {
    at::Tensor dw_VC;
    Sum sum = Sum::Add;
};

// With a shard, each rank returns the loss over the whole vocabulary, and saved.dx_MC is only this
// shard's summand of the gradient.
//
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
