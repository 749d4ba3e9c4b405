// Causal grouped-query attention; the scale is 1 / sqrt(D). Letters as in rope.hpp, A = H D.
//
// ATen's CPU flash kernel knows no groups. Each key head becomes a batch entry of its own and its
// queries the heads, so that keys are shared by a stride of 0 and never repeated in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include "worker/train/ops/rope.hpp"

namespace roll::ops {

struct AttentionSaved {
    Heads heads;
    at::Tensor out;        // as the kernel made it
    at::Tensor logsumexp;  // likewise
};

at::Tensor attention(const Heads& heads, AttentionSaved& saved);  // o_BTA

Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& saved);

}  // namespace roll::ops
