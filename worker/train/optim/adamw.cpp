#include "worker/train/optim/adamw.hpp"

#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "worker/train/model/lazy_zeros.hpp"
#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"

namespace roll::train {
namespace {

constexpr std::int64_t kBlock = 1 << 14;  // minimum number of elements per thread

void update(const Parameters& p, const AdamWState& state, std::size_t i,
            const simd::AdamWFactors& factors) {
    ops::for_float_types(p.weight[i], [&]<class S>(S) {
        using W = simd::Wide<S>;
        S* w = own_rows(p, i, p.weight[i]).data_ptr<S>();
        std::int16_t* rest = p.rest.empty() ? nullptr : p.rest[i].data_ptr<std::int16_t>();
        W *m = state.average[i].data_ptr<W>(), *v = state.square[i].data_ptr<W>();
        const W* g = p.own_grad[i].const_data_ptr<W>();
        ops::for_rows(state.average[i].numel(), kBlock, [&](std::int64_t at, std::int64_t count) {
            simd::kernels<S>().adamw(w + at, rest == nullptr ? nullptr : rest + at, m + at, v + at,
                                     g + at, factors, count);
        });
    });
}

// Returns the sum of squares. Works in lanes, so that the compiler can vectorize.
template <class T>
double sum_squares(const T* values, std::int64_t size) {
    constexpr std::int64_t kLanes = 16;
    std::array<double, kLanes> lanes{};
    std::int64_t i = 0;
    for (; i + kLanes <= size; i += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
            const auto value = static_cast<double>(values[i + lane]);
            lanes[lane] += value * value;
        }
    }
    double sum = std::accumulate(lanes.begin(), lanes.end(), 0.0);
    for (; i < size; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    return sum;
}

bool does_decay(const ParameterSpec& spec, const std::vector<std::pair<std::string, bool>>& rules) {
    for (const auto& [glob, decays] : rules)
        if (matches_any({glob}, spec.name)) return decays;
    return spec.sizes.size() > 1;
}

// Returns consecutive views of `flat` with the shapes of the parameters' own rows; undefined views
// for frozen parameters.
std::vector<at::Tensor> own_views(const Parameters& p, const at::Tensor& flat) {
    std::vector<at::Tensor> views;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        views.emplace_back();
        if (p.specs[i].frozen) continue;
        const at::Tensor like = own_rows(p, i, p.weight[i]);
        views.back() = flat.narrow(0, begin, like.numel()).view(like.sizes());
        begin += like.numel();
    }
    return views;
}

}  // namespace

AdamW::AdamW(const Parameters& p, const AdamWOptions& options) : options_(options), parameters_(p) {
    std::int64_t moving = 0;
    for (std::size_t i = 0; i < p.specs.size(); ++i)
        if (!p.specs[i].frozen) moving += own_rows(p, i, p.weight[i]).numel();
    const at::TensorOptions kind = p.flat_weight.options().dtype(main_type(p));
    state_.flat_average = lazy_zeros(moving, kind);
    state_.flat_square = lazy_zeros(moving, kind);
    state_.average = own_views(p, state_.flat_average);
    state_.square = own_views(p, state_.flat_square);
    for (const ParameterSpec& spec : p.specs) decays_.push_back(does_decay(spec, options.decays));
}

void AdamW::step(double lr, double grad_scale) {
    state_.steps += 1;
    if (!parameters_.flat_weight.is_cpu()) return step_on_gpu(lr, grad_scale);
    const auto steps = static_cast<double>(state_.steps);
    simd::AdamWFactors factors{.grad_scale = grad_scale,
                               .keep = 1,
                               .beta1 = options_.beta1,
                               .beta2 = options_.beta2,
                               .step = lr / (1 - std::pow(options_.beta1, steps)),
                               .root = std::sqrt(1 - std::pow(options_.beta2, steps)),
                               .eps = options_.eps};
    for (std::size_t i = 0; i < parameters_.specs.size(); ++i) {
        if (parameters_.specs[i].frozen) continue;
        factors.keep = decays_[i] ? 1 - lr * options_.weight_decay : 1;
        update(parameters_, state_, i, factors);
    }
}

void AdamW::step_on_gpu(double lr, double grad_scale) {
    if (grad_scale != 1) {
        at::Tensor grad = parameters_.flat_grad;
        grad.mul_(grad_scale);
    }
    for (const bool decays : {true, false}) {
        std::vector<at::Tensor> weight, grad, average, square;
        for (std::size_t i = 0; i < parameters_.specs.size(); ++i) {
            if (parameters_.specs[i].frozen) continue;
            if (decays_[i] != decays || parameters_.own[i].count == 0) continue;
            weight.push_back(parameters_.main[i]);
            grad.push_back(parameters_.own_grad[i]);
            average.push_back(state_.average[i]);
            square.push_back(state_.square[i]);
        }
        ops::gpu::adamw(weight, grad, average, square,
                        {lr, options_.beta1, options_.beta2, decays ? options_.weight_decay : 0,
                         options_.eps, state_.steps});
    }
    if (parameters_.flat_weight.is_same(parameters_.flat_main)) return;
    at::Tensor flat = parameters_.flat_weight;
    if (!parameters_.is_shared) return static_cast<void>(flat.copy_(parameters_.flat_main));
    for (std::size_t i = 0; i < parameters_.specs.size(); ++i)
        own_rows(parameters_, i, parameters_.weight[i]).copy_(parameters_.main[i]);
}

at::Tensor square_sum(const at::Tensor& values) {
    if (!values.is_cpu()) {
        const at::Tensor norm =
            at::linalg_vector_norm(values, 2, at::OptionalIntArrayRef{}, false, at::kDouble);
        return norm.square().cpu();
    }
    // Number of elements of one partial sum. It is fixed, so that the result does not depend on the
    // number of threads.
    constexpr std::int64_t kBlock = 1 << 16;
    const std::int64_t size = values.numel(), blocks = (size + kBlock - 1) / kBlock;
    const at::Tensor sums = at::empty({blocks}, at::kDouble);
    ops::for_float_types(values, [&]<class T>(T) {
        const T* grad = values.const_data_ptr<T>();
        double* sum = sums.data_ptr<double>();
        ops::for_rows(blocks, 1, [&](std::int64_t first, std::int64_t count) {
            for (std::int64_t block = first; block < first + count; ++block) {
                const std::int64_t begin = block * kBlock;
                sum[block] = sum_squares(grad + begin, std::min(kBlock, size - begin));
            }
        });
    });
    return sums.sum();
}

at::Tensor zero_count(const at::Tensor& values) {
    return (values.numel() - values.count_nonzero()).cpu();
}

}  // namespace roll::train
