#include "worker/train/optim/update.hpp"

namespace roll::train {
namespace {

void lion_on_gpu(const Update& update) {
    const spec::OptimizerSpec& o = update.options;
    at::Tensor weight = update.parameters.main[update.index], average = update.state[0];
    const at::Tensor grad = update.parameters.own_grad[update.index];
    weight.mul_(1 - update.lr * update.weight_decay)
        .sub_(at::lerp(average, grad, 1 - o.beta1).sign_(), update.lr);
    average.lerp_(grad, 1 - o.beta2);
}

template <class W>
void lion_slice(const Slice<W>& slice, const Update& update) {
    const spec::OptimizerSpec& o = update.options;
    const auto scale = static_cast<W>(update.grad_scale), lr = static_cast<W>(update.lr);
    const auto keep = static_cast<W>(1 - update.lr * update.weight_decay);
    const auto old1 = static_cast<W>(o.beta1), new1 = static_cast<W>(1 - o.beta1);
    const auto old2 = static_cast<W>(o.beta2), new2 = static_cast<W>(1 - o.beta2);
    W* const average = slice.state[0];
    for (std::int64_t i = 0; i < slice.size; ++i) {
        const W g = slice.grad[i] * scale, mixed = old1 * average[i] + new1 * g;
        const W sign = static_cast<W>((mixed > 0) - (mixed < 0));
        slice.weight[i] = keep * slice.weight[i] - lr * sign;
        average[i] = old2 * average[i] + new2 * g;
    }
}

}  // namespace

void lion(const Update& update) {
    const Parameters& p = update.parameters;
    if (!p.flat_weight.is_cpu()) return lion_on_gpu(update);
    for_slices(p, update.index, p.own_grad[update.index], update.state,
               [&](const auto& slice) { lion_slice(slice, update); });
}

}  // namespace roll::train
