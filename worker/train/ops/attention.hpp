// Causal grouped-query attention. Letters as in rope.hpp, A = H D. Scores are never whole in
// memory: forward keeps each position's log sum exp, from which backward makes them again.
#pragma once

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "worker/train/ops/rope.hpp"

namespace roll::ops {

struct AttentionRule {
    double scale = 0;         // of the scores; 0: 1 / sqrt(D)
    double soft_cap = 0;      // scores become cap * tanh(score / cap); 0: they stay
    std::int64_t window = 0;  // a position sees so many, itself included; 0: all before it
};

struct AttentionSaved {
    AttentionRule rule;  // its scale as it was used
    Heads heads;
    at::Tensor out_BTA;
    at::Tensor logsumexp_BHT;
    std::array<at::Tensor, 2> flash;  // what a GPU's flash attention keeps besides
};

// o_BTA. `place` is asked on a CPU alone.
at::Tensor attention(const Heads& heads, const AttentionRule& rule, AttentionSaved& saved,
                     const Place& place = {});

// Of bfloat16 on a CPU the gradients are float32: rope_backward rounds them.
Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& saved);

}  // namespace roll::ops
