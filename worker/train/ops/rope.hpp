// Rotary positions. Cuts the fused projection into heads and turns queries and keys on the way,
// so that the copy into head-major layout, which attention wants, costs no pass of its own.
//
// B batch, T positions, H query heads, G key heads, D head dim, P = (H + 2 G) D. The projection
// lies as Megatron has it: for each key head its H / G query heads, then the key, then the value.
// The pairs that turn together are (i, i + D / 2), as in Hugging Face's llama.
#pragma once

#include <cstdint>

#include "common/spec/model.hpp"
#include "worker/train/ops/place.hpp"

namespace roll::ops {

struct RopeTable {
    at::Tensor cos_TE;  // E = D / 2
    at::Tensor sin_TE;
};
RopeTable rope_table(std::int64_t positions, std::int64_t head_dim, double theta,
                     const spec::RopeScaling& scaling, at::ScalarType dtype);

struct Heads {
    at::Tensor q_BHTD;
    at::Tensor k_BGTD;
    at::Tensor v_BGTD;
};

// `place` is asked on a CPU alone.
Heads rope(const at::Tensor& qkv_BTP, std::int64_t kv_heads, const RopeTable& table,
           const Place& place = {});

// dqkv_BTP of `dtype`, that of the forward pass.
at::Tensor rope_backward(const Heads& d, const RopeTable& table, at::ScalarType dtype);

}  // namespace roll::ops
