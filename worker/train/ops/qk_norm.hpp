// An RMSNorm of each query head and each key head, with one weight for all queries and one for all
// keys; values pass unchanged. Of the fused projection, before it is cut into heads: letters as in
// rope.hpp.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "worker/train/ops/rms_norm.hpp"

namespace roll::ops {

struct QkNormSaved {
    at::Tensor qkv_MP;
    at::Tensor rstd_MR;  // of each row of D: R = H + 2 G, those of values unused
    RmsNormSaved q, k;   // instead of both, on a GPU
};

// Weights are [D]; kv_heads is G.
at::Tensor qk_norm(const at::Tensor& qkv_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                   std::int64_t kv_heads, double eps, QkNormSaved& saved);

// Returns dqkv_MP and overwrites both weights' gradients, summed over rows in an order of its own.
at::Tensor qk_norm_backward(const at::Tensor& dy_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                            std::int64_t kv_heads, const QkNormSaved& saved, const at::Tensor& dq_D,
                            const at::Tensor& dk_D);

}  // namespace roll::ops
