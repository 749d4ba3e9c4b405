#include <cmath>
#include <vector>

#include "worker/train/ops/gpu.hpp"
#include "worker/train/optim/update.hpp"

namespace roll::train {
namespace {

constexpr std::int64_t kBlock = 1 << 14;  // minimum number of elements per thread

}  // namespace

void adamw(const Update& update) {
    const spec::OptimizerSpec& o = update.options;
    const auto steps = static_cast<double>(update.steps);
    const simd::AdamWFactors factors{.grad_scale = update.grad_scale,
                                     .keep = 1 - update.lr * update.weight_decay,
                                     .beta1 = o.beta1,
                                     .beta2 = o.beta2,
                                     .step = update.lr / (1 - std::pow(o.beta1, steps)),
                                     .root = std::sqrt(1 - std::pow(o.beta2, steps)),
                                     .eps = o.eps};
    const Parameters& p = update.parameters;
    const std::size_t i = update.index;
    for_updated_type(p, [&]<class S>(S) {
        using W = simd::Wide<S>;
        S* w = updated(p, i).template data_ptr<S>();
        std::int16_t* rest = p.rest.empty() ? nullptr : p.rest[i].data_ptr<std::int16_t>();
        W *m = update.state[0].data_ptr<W>(), *v = update.state[1].data_ptr<W>();
        const W* g = p.own_grad[i].const_data_ptr<W>();
        for_windows(update.state, update.state[0].numel(), [&](std::int64_t begin, std::int64_t n) {
            ops::for_rows(n, kBlock, [&](std::int64_t first, std::int64_t count) {
                const std::int64_t at = begin + first;
                simd::kernels<S>().adamw(w + at, rest == nullptr ? nullptr : rest + at, m + at,
                                         v + at, g + at, factors, count);
            });
        });
    });
}

void adamw_on_gpu(std::span<const Update> updates) {
    if (updates.empty()) return;
    std::vector<at::Tensor> weight, grad, average, square;
    for (const Update& update : updates) {
        const Parameters& p = update.parameters;
        if (p.own[update.index].count == 0) continue;
        weight.push_back(p.main[update.index]);
        grad.push_back(p.own_grad[update.index]);
        average.push_back(update.state[0]);
        square.push_back(update.state[1]);
    }
    const Update& one = updates.front();
    const spec::OptimizerSpec& o = one.options;
    ops::gpu::adamw(weight, grad, average, square,
                    {one.lr, o.beta1, o.beta2, one.weight_decay, o.eps, one.steps});
}

}  // namespace roll::train
