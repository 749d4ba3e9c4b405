// Rotary position embedding. The operator splits the fused projection into heads and copies them to
// the head-major layout of attention. The operator rotates queries and keys during this copy, so
// the rotation needs no extra pass over memory.
//
// B batch, T positions, H query heads, G key heads, D head dim, P = (H + 2 G) D. The projection has
// Megatron's layout: for each key head, first its H / G query heads, then the key, then the value.
// Rotated pairs are (i, i + D / 2), as in Hugging Face's llama.
#pragma once

#include <cstdint>

#include "common/spec/train/model.hpp"
#include "worker/train/ops/values.hpp"

namespace roll::ops {

RopeTable rope_table(std::int64_t positions, std::int64_t head_dim, double theta,
                     const spec::RopeScaling& scaling, at::ScalarType dtype);

// Returns the heads of qkv_BTP; queries and keys are rotated. On a CPU, `place` allocates the
// result; on a GPU, `place` is ignored.
Heads rope(const at::Tensor& qkv_BTP, std::int64_t kv_heads, const RopeTable& table,
           const Place& place = {});

// Returns dqkv_BTP, the gradient of the projection, in `dtype`. `dtype` must be the type of the
// forward pass.
at::Tensor rope_backward(const Heads& d, const RopeTable& table, at::ScalarType dtype);

}  // namespace roll::ops
