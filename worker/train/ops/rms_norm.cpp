#include "worker/train/ops/rms_norm.hpp"

#include <cmath>

#include "worker/train/ops/kernel.hpp"

namespace roll::ops {
namespace {

constexpr std::int64_t kBlockRows = 32;  // one partial sum of dw each

template <class T>
void norm_row(T* y, T* rstd, const T* x, const T* w, double eps, std::int64_t size) {
    const T square = at::vec::map_reduce_all<T>([](Vec<T> v) { return v * v; }, kPlus, x, size);
    const T r = static_cast<T>(1 / std::sqrt(square / static_cast<double>(size) + eps));
    at::vec::map2<T>([r](Vec<T> a, Vec<T> b) { return a * Vec<T>(r) * b; }, y, x, w, size);
    *rstd = r;
}

// With n = x * rstd: dx = rstd * (dy * w - n * mean(dy * w * n)), dw += dy * n.
template <class T>
void norm_row_backward(T* dx, T* dw, const T* dy, const T* w, const T* x, const T* dresidual,
                       T rstd, std::int64_t size) {
    const T dot = at::vec::map3_reduce_all<T>(
        [](Vec<T> a, Vec<T> b, Vec<T> c) { return a * b * c; }, kPlus, dy, w, x, size);
    const Vec<T> r(rstd), pull(rstd * rstd * rstd * dot / static_cast<T>(size));
    at::vec::map4<T>([=](Vec<T> past, Vec<T> g, Vec<T> scale,
                         Vec<T> value) { return past + r * g * scale - pull * value; },
                     dx, dresidual, dy, w, x, size);
    at::vec::map3<T>([=](Vec<T> sum, Vec<T> g, Vec<T> value) { return sum + g * value * r; }, dw,
                     dw, dy, x, size);
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x_MC, const at::Tensor& w_C, double eps,
                    RmsNormSaved& saved) {
    const std::int64_t rows = x_MC.size(0), size = x_MC.size(1);
    saved = {x_MC, at::empty({rows}, x_MC.options())};
    at::Tensor y_MC = at::empty_like(x_MC);
    for_float_types(x_MC, [&]<class T>(T) {
        const T *x = x_MC.const_data_ptr<T>(), *w = w_C.const_data_ptr<T>();
        T *y = y_MC.data_ptr<T>(), *rstd = saved.rstd_M.data_ptr<T>();
        for_rows(rows, kBlockRows, [&](std::int64_t m) {
            norm_row(y + m * size, rstd + m, x + m * size, w, eps, size);
        });
    });
    return y_MC;
}

at::Tensor rms_norm_backward(const at::Tensor& dy_MC, const at::Tensor& w_C,
                             const RmsNormSaved& saved, const at::Tensor& dresidual_MC,
                             const at::Tensor& dw_C) {
    const std::int64_t rows = dy_MC.size(0), size = dy_MC.size(1);
    const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
    at::Tensor dx_MC = at::empty_like(dy_MC);
    at::Tensor dw_KC = at::zeros({blocks, size}, dy_MC.options());
    for_float_types(dy_MC, [&]<class T>(T) {
        const T *dy = dy_MC.const_data_ptr<T>(), *w = w_C.const_data_ptr<T>(),
                *x = saved.x_MC.const_data_ptr<T>(), *rstd = saved.rstd_M.const_data_ptr<T>(),
                *past = dresidual_MC.const_data_ptr<T>();
        T *dx = dx_MC.data_ptr<T>(), *dw = dw_KC.data_ptr<T>();
        for_rows(blocks, 1, [&](std::int64_t block) {
            const std::int64_t end = std::min(rows, (block + 1) * kBlockRows);
            for (std::int64_t m = block * kBlockRows; m < end; ++m) {
                const std::int64_t at = m * size;
                norm_row_backward(dx + at, dw + block * size, dy + at, w, x + at, past + at,
                                  rstd[m], size);
            }
        });
    });
    dw_C.add_(dw_KC.sum(0));
    return dx_MC;
}

}  // namespace roll::ops
