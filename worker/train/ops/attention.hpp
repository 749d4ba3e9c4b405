// Computes causal grouped-query attention. Letters are as in rope.hpp; A = H D. The score matrix is
// never stored: forward saves each position's log(sum(exp(scores))), from which backward recomputes
// the scores.
#pragma once

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "worker/train/ops/rope.hpp"

namespace roll::ops {

struct AttentionRule {
    double scale = 0;  // factor of the scores; 0: 1 / sqrt(D)
    // bound on the scores' magnitude: they become cap * tanh(score / cap); 0: none
    double soft_cap = 0;
    std::int64_t window = 0;  // number of keys that a position sees, including its own; 0: all
};

struct AttentionSaved {
    AttentionRule rule;  // the rule that forward used, with its scale filled in
    Heads heads;
    at::Tensor out_BTA;
    at::Tensor logsumexp_BHT;
    std::array<at::Tensor, 2> flash;  // values that a GPU's flash attention saves
};

// Returns o_BTA and fills `saved`. Allocates the result with `place`, but only on a CPU.
at::Tensor attention(const Heads& heads, const AttentionRule& rule, AttentionSaved& saved,
                     const Place& place = {});

// Returns the gradients of q, k and v. For bfloat16 on a CPU the gradients are float32;
// rope_backward() rounds them.
Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& saved);

}  // namespace roll::ops
