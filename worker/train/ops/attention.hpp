// Computes causal grouped-query attention. Letters are as in rope.hpp; A = H D. The score matrix
// is never stored as a whole: forward saves log(sum(exp(scores))) for each position, with which
// backward recomputes the probabilities.
#pragma once

#include "worker/train/ops/values.hpp"

namespace roll::ops {

// Returns o_BTA and fills `saved`. Allocates the result with `place`, but only on a CPU.
at::Tensor attention(const Heads& heads, const AttentionRule& rule, AttentionSaved& saved,
                     const Place& place = {});

// Returns the gradients of q, k and v. For bfloat16 on a CPU the gradients are float32;
// rope_backward() rounds them.
Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& saved);

}  // namespace roll::ops
