#include "worker/train/ops/swiglu.hpp"

#include <ATen/ATen.h>

#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"

namespace roll::ops {

at::Tensor swiglu(const at::Tensor& gate_up_MJ, SwigluSaved& saved) {
    const std::int64_t rows = gate_up_MJ.size(0), size = gate_up_MJ.size(1) / 2;
    saved = {gate_up_MJ};
    if (!gate_up_MJ.is_cpu()) return gpu::swiglu(gate_up_MJ);
    at::Tensor a_MI = at::empty({rows, size}, gate_up_MJ.options());
    for_float_types(gate_up_MJ, [&]<class T>(T) {
        const T* gate_up = gate_up_MJ.const_data_ptr<T>();
        T* a = a_MI.data_ptr<T>();
        for_rows(rows, 8, [&](std::int64_t m, std::int64_t count) {
            simd::kernels<T>().swiglu(a + m * size, gate_up + m * 2 * size, count, size);
        });
    });
    return a_MI;
}

at::Tensor swiglu_backward(const at::Tensor& da_MI, const SwigluSaved& saved, at::Tensor& a_MI) {
    if (!da_MI.is_cpu()) {
        a_MI = gpu::swiglu(saved.gate_up_MJ);
        return gpu::swiglu_backward(da_MI, saved.gate_up_MJ);
    }
    const std::int64_t rows = da_MI.size(0), size = da_MI.size(1);
    at::Tensor dgate_up_MJ = at::empty_like(saved.gate_up_MJ);
    a_MI = at::empty_like(da_MI);
    for_float_types(da_MI, [&]<class S>(S) {
        const S *da = da_MI.const_data_ptr<S>(), *in = saved.gate_up_MJ.const_data_ptr<S>();
        S *out = dgate_up_MJ.data_ptr<S>(), *a = a_MI.data_ptr<S>();
        for_rows(rows, 8, [&](std::int64_t m, std::int64_t count) {
            const std::int64_t at = m * size;
            simd::kernels<S>().swiglu_backward(out + 2 * at, a + at, da + at, in + 2 * at, count,
                                               size);
        });
    });
    return dgate_up_MJ;
}

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
