// Computes a_MI = gelu(gate_MI) * up_MI with the tanh approximation of gelu. Each row of gate_up_MJ
// holds gate, then up (J = 2 I).
#pragma once

#include <ATen/core/Tensor.h>

namespace roll::ops {

at::Tensor geglu(const at::Tensor& gate_up_MJ);

// Returns dgate_up_MJ, the gradient of the input.
at::Tensor geglu_backward(const at::Tensor& da_MI, const at::Tensor& gate_up_MJ);

}  // namespace roll::ops
