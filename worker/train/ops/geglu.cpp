#include "worker/train/ops/geglu.hpp"

#include <ATen/ATen.h>

namespace roll::ops {

at::Tensor geglu(const at::Tensor& gate_up_MJ) {
    const auto half = gate_up_MJ.chunk(2, 1);
    return at::gelu(half[0], "tanh").mul_(half[1]);
}

at::Tensor geglu_backward(const at::Tensor& da_MI, const at::Tensor& gate_up_MJ) {
    const auto half = gate_up_MJ.chunk(2, 1);
    at::Tensor dgate_up_MJ = at::empty_like(gate_up_MJ);
    const auto dhalf = dgate_up_MJ.chunk(2, 1);
    dhalf[0].copy_(at::gelu_backward(da_MI * half[1], half[0], "tanh"));
    dhalf[1].copy_(at::gelu(half[0], "tanh").mul_(da_MI));
    return dgate_up_MJ;
}

}  // namespace roll::ops
