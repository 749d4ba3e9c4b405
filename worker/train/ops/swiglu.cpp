#include "worker/train/ops/swiglu.hpp"

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

at::Tensor swiglu_backward(const at::Tensor& da_MI, const SwigluSaved& saved) {
    if (!da_MI.is_cpu()) return gpu::swiglu_backward(da_MI, saved.gate_up_MJ);
    const std::int64_t rows = da_MI.size(0), size = da_MI.size(1);
    at::Tensor dgate_up_MJ = at::empty_like(saved.gate_up_MJ);
    for_float_types(da_MI, [&]<class T>(T) {
        const T *da = da_MI.const_data_ptr<T>(), *in = saved.gate_up_MJ.const_data_ptr<T>();
        T* out = dgate_up_MJ.data_ptr<T>();
        for_rows(rows, 8, [&](std::int64_t m, std::int64_t count) {
            simd::kernels<T>().swiglu_backward(out + m * 2 * size, da + m * size, in + m * 2 * size,
                                               count, size);
        });
    });
    return dgate_up_MJ;
}

}  // namespace roll::ops
