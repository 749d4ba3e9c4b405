#include "worker/train/optim/update.hpp"

namespace roll::train {
namespace {

void sgd_on_gpu(const Update& update) {
    const at::Tensor weight = update.parameters.main[update.index];
    at::Tensor grad =
        at::add(update.parameters.own_grad[update.index], weight, update.weight_decay);
    if (at::Tensor buffer = update.state[0]; buffer.defined()) {
        buffer.mul_(update.options.momentum).add_(grad);
        grad = update.options.nesterov ? grad.add_(buffer, update.options.momentum) : buffer;
    }
    weight.sub_(grad, update.lr);
}

template <class W>
void sgd_slice(const Slice<W>& slice, const Update& update) {
    const auto scale = static_cast<W>(update.grad_scale),
               decay = static_cast<W>(update.weight_decay);
    const auto momentum = static_cast<W>(update.options.momentum), lr = static_cast<W>(update.lr);
    const bool nesterov = update.options.nesterov;
    W* const buffer = slice.state[0];
    for (std::int64_t i = 0; i < slice.size; ++i) {
        W g = slice.grad[i] * scale + decay * slice.weight[i];
        if (buffer != nullptr) {
            buffer[i] = momentum * buffer[i] + g;
            g = nesterov ? g + momentum * buffer[i] : buffer[i];
        }
        slice.weight[i] -= lr * g;
    }
}

}  // namespace

void sgd(const Update& update) {
    const Parameters& p = update.parameters;
    if (!p.flat_weight.is_cpu()) return sgd_on_gpu(update);
    for_slices(p, update.index, p.own_grad[update.index], update.state,
               [&](const auto& slice) { sgd_slice(slice, update); });
}

}  // namespace roll::train
