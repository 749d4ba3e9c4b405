// RMSNorm of each query head and each key head, with one weight for all queries and one for all
// keys; values pass unchanged. It works on the fused projection, before that is split into heads.
// Letters are as in rope.hpp.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "worker/train/ops/rms_norm.hpp"

namespace roll::ops {

struct QkNormSaved {
    at::Tensor qkv_MP;
    at::Tensor rstd_MR;  // of each row of D numbers: R = H + 2 G; unused for values
    RmsNormSaved q, k;   // on a GPU, in place of the two tensors
};

// Returns the normed projection. The weights are [D]; kv_heads is G.
at::Tensor qk_norm(const at::Tensor& qkv_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                   std::int64_t kv_heads, double eps, QkNormSaved& saved);

// Returns dqkv_MP and overwrites the gradients of both weights. These are summed over rows in a
// fixed order, so they do not depend on the number of threads.
at::Tensor qk_norm_backward(const at::Tensor& dy_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                            std::int64_t kv_heads, const QkNormSaved& saved, const at::Tensor& dq_D,
                            const at::Tensor& dk_D);

}  // namespace roll::ops
