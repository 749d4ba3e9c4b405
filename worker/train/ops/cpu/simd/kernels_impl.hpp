// The kernels, compiled for the vector width of the file that includes this header. Only
// simd/kernels_*.cpp include this header, each with its own compiler flags. The code that this
// header includes must be in a namespace of its own for each width (as at::vec is), or always be
// inlined. Otherwise, the linker could use one width's copy of a function for all widths, and the
// processor may lack the instructions of that copy.
#pragma once

#include <cstdint>

#include "worker/train/ops/cpu/simd/attention_backward_impl.hpp"
#include "worker/train/ops/cpu/simd/halves.hpp"
#include "worker/train/ops/cpu/simd/pack_impl.hpp"
#include "worker/train/ops/cpu/simd/rows_impl.hpp"

namespace roll::simd {
namespace {

template <class S>
double cross_entropy(S* logits, Wide<S>* room, std::int64_t target, double scale,
                     std::int64_t size) {
    using W = Wide<S>;
    W* const score = widened(logits, room, size);
    const W max = at::vec::reduce_all<W>(Larger(), score, size), wanted = score[target];
    for_lanes<W>(size, [&](std::int64_t i, std::int64_t n) {
        put(score + i, (get(score + i, n) - Vec<W>(max)).exp(), n);
    });
    const W sum =
        sum_of<W>(size, [&](std::int64_t i, std::int64_t n) { return get(score + i, n); });
    const W factor = static_cast<W>(scale) / sum;
    // The softmax is score / sum. After this subtraction, score[target] * factor below is scale *
    // (softmax - 1).
    score[target] -= sum;
    for_lanes<W>(size, [&](std::int64_t i, std::int64_t n) {
        put(logits + i, get(score + i, n) * Vec<W>(factor), n);
    });
    return static_cast<double>(max - wanted) + std::log(static_cast<double>(sum));
}

// Rounds a product to its type immediately. Otherwise, the compiler might fuse the product with a
// later addition. The result would then be rounded differently.
template <class W>
inline __attribute__((always_inline)) Vec<W> rounded(Vec<W> product) {
    asm("" : "+m"(product));
    return product;
}

template <class W>
void adamw_wide(W* weight, W* average, W* square, const W* grad, const AdamWFactors& factors,
                std::int64_t size) {
    const auto all = [](double factor) { return Vec<W>(static_cast<W>(factor)); };
    const Vec<W> scale = all(factors.grad_scale), keep = all(factors.keep), eps = all(factors.eps);
    const Vec<W> new1 = all(1 - factors.beta1), new2 = all(1 - factors.beta2);
    const Vec<W> beta2 = all(factors.beta2), step = all(factors.step);
    const Vec<W> root = all(factors.root);
    for_lanes<W>(size, [&](std::int64_t i, std::int64_t n) {
        const Vec<W> g = rounded<W>(get(grad + i, n) * scale), old = get(average + i, n);
        const Vec<W> m = at::vec::fmadd(new1, g - old, old);
        const Vec<W> v = at::vec::fmadd(new2 * g, g, beta2 * get(square + i, n));
        put(average + i, m, n);
        put(square + i, v, n);
        put(weight + i, rounded<W>(keep * get(weight + i, n)) - step * m / (v.sqrt() / root + eps),
            n);
    });
}

template <class S>
void adamw(S* weight, std::int16_t* rest, Wide<S>* average, Wide<S>* square, const Wide<S>* grad,
           const AdamWFactors& factors, std::int64_t size) {
    if constexpr (std::is_same_v<S, Wide<S>>) {
        adamw_wide(weight, average, square, grad, factors, size);
    } else {
        constexpr std::int64_t kBlock = 512;
        float joined[kBlock];
        for (std::int64_t begin = 0; begin < size; begin += kBlock) {
            const std::int64_t count = size - begin < kBlock ? size - begin : kBlock;
            for (std::int64_t i = 0; i < count; ++i)
                joined[i] = join(weight[begin + i], rest[begin + i]);
            adamw_wide(joined, average + begin, square + begin, grad + begin, factors, count);
            for (std::int64_t i = 0; i < count; ++i) weight[begin + i] = nearest(joined[i]);
            for (std::int64_t i = 0; i < count; ++i) rest[begin + i] = rest_of(joined[i]);
        }
    }
}

template <class S>
constexpr auto adamw_of() {
    if constexpr (std::is_same_v<S, c10::Half>)
        return nullptr;
    else
        return &adamw<S>;
}

template <class S>
constexpr Kernels<S> kTable{.rms_norm = &rms_norm<S>,
                            .rms_norm_backward = &rms_norm_backward<S>,
                            .turn = &turn<S>,
                            .turn_back = &turn_back<S>,
                            .round = &round<S>,
                            .swiglu = &swiglu<S>,
                            .swiglu_backward = &swiglu_backward<S>,
                            .cross_entropy = &cross_entropy<S>,
                            .adamw = adamw_of<S>(),
                            .attention = &attention<S>,
                            .attention_backward = &attention_backward<S>,
                            .pack = &pack<S>};

}  // namespace
}  // namespace roll::simd
