#include "worker/train/ops/rms_norm.hpp"

#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"

namespace roll::ops {
namespace {

constexpr std::int64_t kBlockRows = 32;  // rows per partial sum of dw

}  // namespace

at::Tensor rms_norm(const at::Tensor& x_MC, const at::Tensor& w_C, double eps,
                    RmsNormSaved& saved) {
    if (!x_MC.is_cpu()) return gpu::rms_norm(x_MC, w_C, eps, saved);
    const std::int64_t rows = x_MC.size(0), size = x_MC.size(1);
    saved = {x_MC, at::empty({rows}, wide_options(x_MC))};
    const at::Tensor weight_C = wide(w_C);
    at::Tensor y_MC = at::empty_like(x_MC);
    for_float_types(x_MC, [&]<class S>(S) {
        const S* x = x_MC.const_data_ptr<S>();
        const auto* w = weight_C.const_data_ptr<Wide<S>>();
        S* y = y_MC.data_ptr<S>();
        auto* rstd = saved.rstd_M.data_ptr<Wide<S>>();
        for_rows(rows, kBlockRows, [&](std::int64_t m, std::int64_t count) {
            simd::kernels<S>().rms_norm(y + m * size, rstd + m, x + m * size, w, eps, count, size);
        });
    });
    return y_MC;
}

at::Tensor rms_norm_backward(const at::Tensor& dy_MC, const at::Tensor& w_C,
                             const RmsNormSaved& saved, const at::Tensor& dresidual_MC,
                             const at::Tensor& dw_C) {
    if (!dy_MC.is_cpu()) return gpu::rms_norm_backward(dy_MC, w_C, saved, dresidual_MC, dw_C);
    const std::int64_t rows = dy_MC.size(0), size = dy_MC.size(1);
    const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
    const at::Tensor weight_C = wide(w_C);
    at::Tensor dx_MC = at::empty_like(dy_MC);
    const at::Tensor dw_KC = at::zeros({blocks, size}, wide_options(dy_MC));
    for_float_types(dy_MC, [&]<class S>(S) {
        const S *dy = dy_MC.const_data_ptr<S>(), *x = saved.x_MC.const_data_ptr<S>(),
                *past = dresidual_MC.defined() ? dresidual_MC.const_data_ptr<S>() : nullptr;
        const auto *w = weight_C.const_data_ptr<Wide<S>>(),
                   *rstd = saved.rstd_M.const_data_ptr<Wide<S>>();
        S* dx = dx_MC.data_ptr<S>();
        auto* dw = dw_KC.data_ptr<Wide<S>>();
        for_rows(blocks, 1, [&](std::int64_t first, std::int64_t count) {
            for (std::int64_t block = first; block < first + count; ++block) {
                const std::int64_t m = block * kBlockRows, at = m * size;
                simd::kernels<S>().rms_norm_backward(dx + at, dw + block * size, dy + at, w, x + at,
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
