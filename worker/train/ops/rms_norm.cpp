#include "worker/train/ops/rms_norm.hpp"

#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"

namespace roll::ops {
namespace {

constexpr std::int64_t kBlockRows = 32;  // one partial sum of dw each

}  // namespace

at::Tensor rms_norm(const at::Tensor& x_MC, const at::Tensor& w_C, double eps,
                    RmsNormSaved& saved) {
    if (!x_MC.is_cpu()) return gpu::rms_norm(x_MC, w_C, eps, saved);
    if (is_narrow(x_MC)) {
        const at::Tensor y_MC = rms_norm(wide(x_MC), wide(w_C), eps, saved);
        saved.x_MC = x_MC;
        return narrow(y_MC);
    }
    const std::int64_t rows = x_MC.size(0), size = x_MC.size(1);
    saved = {x_MC, at::empty({rows}, x_MC.options())};
    at::Tensor y_MC = at::empty_like(x_MC);
    for_float_types(x_MC, [&]<class T>(T) {
        const T *x = x_MC.const_data_ptr<T>(), *w = w_C.const_data_ptr<T>();
        T *y = y_MC.data_ptr<T>(), *rstd = saved.rstd_M.data_ptr<T>();
        for_rows(rows, kBlockRows, [&](std::int64_t m, std::int64_t count) {
            simd::kernels<T>().rms_norm(y + m * size, rstd + m, x + m * size, w, eps, count, size);
        });
    });
    return y_MC;
}

at::Tensor rms_norm_backward(const at::Tensor& dy_MC, const at::Tensor& w_C,
                             const RmsNormSaved& saved, const at::Tensor& dresidual_MC,
                             const at::Tensor& dw_C) {
    if (!dy_MC.is_cpu()) return gpu::rms_norm_backward(dy_MC, w_C, saved, dresidual_MC, dw_C);
    if (is_narrow(dy_MC)) {
        const RmsNormSaved wider{wide(saved.x_MC), saved.rstd_M};
        return narrow(rms_norm_backward(wide(dy_MC), wide(w_C), wider, wide(dresidual_MC), dw_C));
    }
    const std::int64_t rows = dy_MC.size(0), size = dy_MC.size(1);
    const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
    at::Tensor dx_MC = at::empty_like(dy_MC);
    const at::Tensor dw_KC = at::zeros({blocks, size}, dy_MC.options());
    for_float_types(dy_MC, [&]<class T>(T) {
        const T *dy = dy_MC.const_data_ptr<T>(), *w = w_C.const_data_ptr<T>(),
                *x = saved.x_MC.const_data_ptr<T>(), *rstd = saved.rstd_M.const_data_ptr<T>(),
                *past = dresidual_MC.defined() ? dresidual_MC.const_data_ptr<T>() : nullptr;
        T *dx = dx_MC.data_ptr<T>(), *dw = dw_KC.data_ptr<T>();
        for_rows(blocks, 1, [&](std::int64_t first, std::int64_t count) {
            for (std::int64_t block = first; block < first + count; ++block) {
                const std::int64_t m = block * kBlockRows, at = m * size;
                simd::kernels<T>().rms_norm_backward(dx + at, dw + block * size, dy + at, w, x + at,
                                                     past == nullptr ? nullptr : past + at,
                                                     rstd + m, std::min(kBlockRows, rows - m),
                                                     size);
            }
        });
    });
    at::Tensor sum_C = dw_C;
    at::sum_out(sum_C, dw_KC, 0);
    return dx_MC;
}

}  // namespace roll::ops
