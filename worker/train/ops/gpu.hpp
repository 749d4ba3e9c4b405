// The operators on a GPU, made of ATen's kernels. These functions use flash attention, fused norms
// and fused AdamW if these are available. This folder's operators call them for tensors that are
// not on the CPU. A function that needs no GPU kernel also accepts CPU tensors and returns the same
// results. The tests call such functions with CPU tensors.
#pragma once

#include <cstdint>
#include <span>

#include "common/spec/train/packed_form.hpp"
#include "worker/train/ops/values.hpp"

namespace roll::ops::gpu {

// Computes RMSNorm. The tensors must be on a GPU.
at::Tensor rms_norm(const at::Tensor& x_MC, const at::Tensor& w_C, double eps, RmsNormSaved& saved);
at::Tensor rms_norm_backward(const at::Tensor& dy_MC, const at::Tensor& w_C,
                             const RmsNormSaved& saved, const at::Tensor& dresidual_MC,
                             const at::Tensor& dw_C);

at::Tensor swiglu(const at::Tensor& gate_up_MJ);
at::Tensor swiglu_backward(const at::Tensor& da_MI, const at::Tensor& gate_up_MJ);

// Returns the heads as views. Their memory is ordered by position, as flash attention requires.
Heads rope(const at::Tensor& qkv_BTP, std::int64_t kv_heads, const RopeTable& table);
at::Tensor rope_backward(const Heads& d, const RopeTable& table);

// Computes attention for the rule and the heads in `saved`, and fills the other members of `saved`.
// For 16-bit types on a GPU without a soft cap, uses flash attention. Otherwise, computes matrix
// products over blocks of queries.
at::Tensor attention(AttentionSaved& saved);
Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& saved);

// Replaces the logits by the gradient of the loss times scale_R (double, on the CPU). Writes the
// loss of each row to loss_R (double).
void cross_entropy(const at::Tensor& logits_RV, const at::Tensor& targets_R,
                   const at::Tensor& scale_R, const at::Tensor& loss_R);

// Unpacks as ops::unpacked() does, with the same results.
at::Tensor unpacked(const spec::PackedForm& form, const at::Tensor& bytes_OR, at::ScalarType type);

struct AdamW {
    double lr, beta1, beta2, weight_decay, eps;
    std::int64_t steps;  // number of optimizer steps, including this one
};
void adamw(std::span<const at::Tensor> weight, std::span<const at::Tensor> grad,
           std::span<const at::Tensor> average, std::span<const at::Tensor> square,
           const AdamW& options);

}  // namespace roll::ops::gpu
