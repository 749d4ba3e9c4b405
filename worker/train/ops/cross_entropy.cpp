#include "worker/train/ops/cross_entropy.hpp"

#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"
#include "worker/train/ops/linear.hpp"

namespace roll::ops {
namespace {

constexpr std::int64_t kBlockBytes = 64 << 20;  // of logits: larger is no faster (measured)

template <class T>
double loss_row(T* logits, std::int64_t target, double scale, std::int64_t size) {
    if (target != kIgnored) return simd::kernels<T>().cross_entropy(logits, target, scale, size);
    std::fill_n(logits, size, T{0});
    return 0;
}

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x_MC, const at::Tensor& w_VC,
                                const at::Tensor& targets_M, double scale, const HeadGrad& grad,
                                CrossEntropySaved& saved) {
    const std::int64_t rows = x_MC.size(0), size = w_VC.size(0);
    const std::int64_t block =
        std::max<std::int64_t>(1, kBlockBytes / (size * x_MC.element_size()));
    const at::Tensor logits_RV = at::empty({std::min(block, rows), size}, x_MC.options());
    const at::Tensor loss_M = at::empty({rows}, x_MC.options().dtype(at::kDouble));
    saved.dx_MC = at::empty_like(x_MC);
    for (std::int64_t begin = 0; begin < rows; begin += block) {
        const std::int64_t count = std::min(block, rows - begin);
        const at::Tensor logits = logits_RV.narrow(0, 0, count), x = x_MC.narrow(0, begin, count);
        matmul(logits, x, w_VC.t(), 0);
        if (!logits.is_cpu())
            gpu::cross_entropy(logits, targets_M.narrow(0, begin, count), scale,
                               loss_M.narrow(0, begin, count));
        else
            for_float_types(x_MC, [&]<class T>(T) {
                T* values = logits.data_ptr<T>();
                const std::int64_t* targets = targets_M.const_data_ptr<std::int64_t>() + begin;
                double* loss = loss_M.data_ptr<double>() + begin;
                for_rows(count, 1, [&](std::int64_t first, std::int64_t rows_here) {
                    for (std::int64_t m = first; m < first + rows_here; ++m)
                        loss[m] = loss_row(values + m * size, targets[m], scale, size);
                });
            });
        matmul(saved.dx_MC.narrow(0, begin, count), logits, w_VC, 0);
        if (!grad.dw_VC.defined()) continue;
        linear_backward_weight(logits, x, grad.dw_VC, begin == 0 ? grad.sum : Sum::Add);
    }
    return loss_M.sum() * scale;
}

at::Tensor linear_cross_entropy_value(const at::Tensor& x_MC, const at::Tensor& w_VC,
                                      const at::Tensor& targets_M) {
    at::Tensor loss = at::zeros({}, x_MC.options().dtype(at::kDouble));
    const std::int64_t block =
        std::max<std::int64_t>(1, kBlockBytes / (w_VC.size(0) * x_MC.element_size()));
    for (std::int64_t begin = 0; begin < x_MC.size(0); begin += block) {
        const std::int64_t end = std::min(x_MC.size(0), begin + block);
        const at::Tensor logits = ops::linear(x_MC.slice(0, begin, end), w_VC);
        loss.add_(at::cross_entropy_loss(logits, targets_M.slice(0, begin, end), {},
                                         at::Reduction::Sum, kIgnored));
    }
    return loss;
}

}  // namespace roll::ops
