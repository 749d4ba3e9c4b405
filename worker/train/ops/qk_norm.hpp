// RMSNorm of each query head and each key head, with one weight for all queries and one for all
// keys; values pass unchanged. The norm works on the fused projection, before that is split into
// heads. Letters are as in rope.hpp.
#pragma once

#include <cstdint>

#include "worker/train/ops/values.hpp"

namespace roll::ops {

struct QkNormSaved {
    at::Tensor qkv_MP;
    // 1 / RMS of each head's row of D numbers: R = H + 2 G per position; unused for values
    at::Tensor rstd_MR;
    RmsNormSaved q, k;  // saved values on a GPU, instead of the two tensors
};

// Returns qkv_MP with its query and key heads normed. q_D and k_D are the norms' weights;
// `kv_heads` is the number of key heads.
at::Tensor qk_norm(const at::Tensor& qkv_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                   std::int64_t kv_heads, double eps, QkNormSaved& saved);

// Returns dqkv_MP and overwrites the gradients of both weights. The gradients are summed over rows
// in a fixed order, so they do not depend on the number of threads.
at::Tensor qk_norm_backward(const at::Tensor& dy_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                            std::int64_t kv_heads, const QkNormSaved& saved, const at::Tensor& dq_D,
                            const at::Tensor& dk_D);

// Like the two functions above, by two calls of rms_norm(). The functions above call these for
// tensors that are not on the CPU.
at::Tensor qk_norm_by_parts(const at::Tensor& qkv_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                            std::int64_t kv_heads, double eps, QkNormSaved& saved);
at::Tensor qk_norm_by_parts_backward(const at::Tensor& dy_MP, const at::Tensor& q_D,
                                     const at::Tensor& k_D, std::int64_t kv_heads,
                                     const QkNormSaved& saved, const at::Tensor& dq_D,
                                     const at::Tensor& dk_D);

}  // namespace roll::ops
