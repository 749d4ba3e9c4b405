#include <cmath>

#include "worker/train/optim/update.hpp"

namespace roll::train {
namespace {

struct AdamFactors {
    double beta1, beta2, step, root;
};

void adam_on_gpu(const Update& update, const AdamFactors& f) {
    const at::Tensor weight = update.parameters.main[update.index];
    at::Tensor average = update.state[0], square = update.state[1];
    const at::Tensor grad =
        at::add(update.parameters.own_grad[update.index], weight, update.weight_decay);
    average.lerp_(grad, 1 - f.beta1);
    square.mul_(f.beta2).addcmul_(grad, grad, 1 - f.beta2);
    weight.addcdiv_(average, (square.sqrt() / f.root).add_(update.options.eps), -f.step);
}

template <class W>
void adam_slice(const Slice<W>& slice, const Update& update, const AdamFactors& f) {
    const auto scale = static_cast<W>(update.grad_scale),
               decay = static_cast<W>(update.weight_decay);
    const auto new1 = static_cast<W>(1 - f.beta1), new2 = static_cast<W>(1 - f.beta2);
    const auto keep2 = static_cast<W>(f.beta2), step = static_cast<W>(f.step);
    const auto root = static_cast<W>(f.root), eps = static_cast<W>(update.options.eps);
    W *const average = slice.state[0], *const square = slice.state[1];
    for (std::int64_t i = 0; i < slice.size; ++i) {
        const W g = slice.grad[i] * scale + decay * slice.weight[i];
        average[i] += new1 * (g - average[i]);
        square[i] = keep2 * square[i] + new2 * g * g;
        slice.weight[i] -= step * average[i] / (std::sqrt(square[i]) / root + eps);
    }
}

}  // namespace

void adam(const Update& update) {
    const spec::OptimizerSpec& o = update.options;
    const auto steps = static_cast<double>(update.steps);
    const AdamFactors factors{o.beta1, o.beta2, update.lr / (1 - std::pow(o.beta1, steps)),
                              std::sqrt(1 - std::pow(o.beta2, steps))};
    const Parameters& p = update.parameters;
    if (!p.flat_weight.is_cpu()) return adam_on_gpu(update, factors);
    for_slices(p, update.index, p.own_grad[update.index], update.state,
               [&](const auto& slice) { adam_slice(slice, update, factors); });
}

}  // namespace roll::train
