// RMSNorm of each query head and each key head, with one weight for all queries and one for all
// keys. The value heads stay unchanged. The norm is applied to the fused projection before it is
// split into heads. Letters are as in rope.hpp.
#pragma once

#include <cstdint>

#include "worker/train/ops/values.hpp"

namespace roll::ops {

struct QkNormSaved {
    at::Tensor qkv_MP;
    // 1 / RMS of each head of each position; R = H + 2 G heads. The elements of value heads are
    // unused.
    at::Tensor rstd_MR;
    RmsNormSaved q, k;  // used on a GPU instead of qkv_MP and rstd_MR
};

// Returns qkv_MP with normalized query and key heads. q_D and k_D are the weights of the norms;
// `kv_heads` is the number of key heads.
at::Tensor qk_norm(const at::Tensor& qkv_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                   std::int64_t kv_heads, double eps, QkNormSaved& saved);

// Returns dqkv_MP and overwrites the gradients of both weights. The gradients are summed over rows
// in a fixed order, so they do not depend on the number of threads.
at::Tensor qk_norm_backward(const at::Tensor& dy_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                            std::int64_t kv_heads, const QkNormSaved& saved, const at::Tensor& dq_D,
                            const at::Tensor& dk_D);

// These functions return the same results as the two functions above, but call rms_norm() once for
// the queries and once for the keys. qk_norm() and qk_norm_backward() call these functions for
// tensors that are not on the CPU.
at::Tensor qk_norm_by_parts(const at::Tensor& qkv_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                            std::int64_t kv_heads, double eps, QkNormSaved& saved);
at::Tensor qk_norm_by_parts_backward(const at::Tensor& dy_MP, const at::Tensor& q_D,
                                     const at::Tensor& k_D, std::int64_t kv_heads,
                                     const QkNormSaved& saved, const at::Tensor& dq_D,
                                     const at::Tensor& dk_D);

}  // namespace roll::ops
