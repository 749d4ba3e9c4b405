// Computes causal grouped-query attention. Dimension letters are as in rope.hpp; A = H D. The whole
// score matrix is never stored. Instead, forward saves log(sum(exp(scores))) for each position,
// from which backward recomputes the probabilities.
#pragma once

#include "worker/train/ops/values.hpp"

namespace roll::ops {

// Returns o_BTA, the attention output, and fills `saved`. On a CPU, `place` allocates the result;
// on a GPU, `place` is ignored.
at::Tensor attention(const Heads& heads, const AttentionRule& rule, AttentionSaved& saved,
                     const Place& place = {});

// Returns the gradients of q, k and v. For bfloat16 on a CPU, the gradients are float32, and
// rope_backward() rounds them.
Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& saved);

}  // namespace roll::ops
