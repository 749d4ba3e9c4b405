// Causal grouped-query attention. Letters as in rope.hpp, A = H D. The score matrix is never
// stored: forward saves each position's log sum exp, from which backward recomputes the scores.
#pragma once

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "worker/train/ops/rope.hpp"

namespace roll::ops {

struct AttentionRule {
    double scale = 0;         // factor of the scores; 0: 1 / sqrt(D)
    double soft_cap = 0;      // score = cap * tanh(score / cap); 0: no cap
    std::int64_t window = 0;  // keys visible to a position, including itself; 0: all
};

struct AttentionSaved {
    AttentionRule rule;  // with the scale that was used
    Heads heads;
    at::Tensor out_BTA;
    at::Tensor logsumexp_BHT;
    std::array<at::Tensor, 2> flash;  // saved by a GPU's flash attention
};

// Returns o_BTA. `place` is used only on a CPU.
at::Tensor attention(const Heads& heads, const AttentionRule& rule, AttentionSaved& saved,
                     const Place& place = {});

// For bfloat16 on a CPU the gradients are float32; rope_backward rounds them.
Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& saved);

}  // namespace roll::ops
