// Row operations between products: norms, rotations and activations. Only kernels_impl.hpp includes
// this file. The rules of kernels_impl.hpp apply.
#pragma once

#include <cstdint>

#include "worker/train/ops/cpu/simd/lanes_impl.hpp"

namespace roll::simd {
namespace {

template <class S>
void rms_norm(S* y, Wide<S>* rstd, const S* x, const Wide<S>* w, double eps, std::int64_t rows,
              std::int64_t size) {
    using W = Wide<S>;
    for (std::int64_t row = 0; row < rows; ++row, y += size, x += size) {
        const W square = sum_of<W>(size, [&](std::int64_t i, std::int64_t n) {
            const Vec<W> value = get(x + i, n);
            return value * value;
        });
        const W r = static_cast<W>(1 / std::sqrt(square / static_cast<double>(size) + eps));
        for_lanes<W>(size, [&](std::int64_t i, std::int64_t n) {
            put(y + i, get(x + i, n) * Vec<W>(r) * get(w + i, n), n);
        });
        rstd[row] = r;
    }
}

template <class S>
void rms_norm_backward(S* dx, Wide<S>* dw, const S* dy, const Wide<S>* w, const S* x, const S* past,
                       const Wide<S>* rstd, std::int64_t rows, std::int64_t size) {
    using W = Wide<S>;
    for (std::int64_t row = 0; row < rows; ++row) {
        const W dot = sum_of<W>(size, [&](std::int64_t i, std::int64_t n) {
            return get(dy + i, n) * get(w + i, n) * get(x + i, n);
        });
        const Vec<W> r(rstd[row]);
        const Vec<W> pull(rstd[row] * rstd[row] * rstd[row] * dot / static_cast<W>(size));
        for_lanes<W>(size, [&](std::int64_t i, std::int64_t n) {
            const Vec<W> rg = r * get(dy + i, n), value = get(x + i, n);
            const Vec<W> d = rg * get(w + i, n) - pull * value;
            put(dx + i, past == nullptr ? d : get(past + i, n) + d, n);
            put(dw + i, get(dw + i, n) + rg * value, n);
        });
        dx += size, dy += size, x += size;
        if (past != nullptr) past += size;
    }
}

template <class S, class In>
void turn_by(S* out, const In* in, const Wide<S>* cos, const Wide<S>* sin, Wide<S> direction,
             std::int64_t half) {
    using W = Wide<S>;
    for_lanes<W>(half, [&](std::int64_t i, std::int64_t n) {
        const Vec<W> a = get(in + i, n), b = get(in + half + i, n), c = get(cos + i, n);
        const Vec<W> s = get(sin + i, n) * Vec<W>(direction);
        put(out + i, a * c - b * s, n);
        put(out + half + i, b * c + a * s, n);
    });
}

template <class S>
void turn(S* out, const S* in, const Wide<S>* cos, const Wide<S>* sin, std::int64_t half) {
    turn_by<S, S>(out, in, cos, sin, 1, half);
}

template <class S>
void turn_back(S* out, const Wide<S>* in, const Wide<S>* cos, const Wide<S>* sin,
               std::int64_t half) {
    turn_by<S, Wide<S>>(out, in, cos, sin, -1, half);
}

template <class S>
void round(S* out, const Wide<S>* in, std::int64_t size) {
    for_lanes<Wide<S>>(size,
                       [&](std::int64_t i, std::int64_t n) { put(out + i, get(in + i, n), n); });
}

template <class W>
Vec<W> sigmoid(Vec<W> x) {
    return Vec<W>(1) / (Vec<W>(1) + x.neg().exp_u20());
}

template <class S>
void swiglu(S* a, const S* gate_up, std::int64_t rows, std::int64_t size) {
    using W = Wide<S>;
    for (std::int64_t row = 0; row < rows; ++row, a += size, gate_up += 2 * size) {
        for_lanes<W>(size, [&](std::int64_t i, std::int64_t n) {
            const Vec<W> gate = get(gate_up + i, n);
            put(a + i, gate * sigmoid<W>(gate) * get(gate_up + size + i, n), n);
        });
    }
}

template <class S>
void swiglu_backward(S* dgate_up, S* a, const S* da, const S* gate_up, std::int64_t rows,
                     std::int64_t size) {
    using W = Wide<S>;
    for (std::int64_t row = 0; row < rows; ++row) {
        for_lanes<W>(size, [&](std::int64_t i, std::int64_t n) {
            const Vec<W> gate = get(gate_up + i, n), up = get(gate_up + size + i, n);
            const Vec<W> d = get(da + i, n), s = sigmoid<W>(gate);
            put(dgate_up + i, d * up * s * (Vec<W>(1) + gate * (Vec<W>(1) - s)), n);
            put(dgate_up + size + i, d * gate * s, n);
            put(a + i, gate * s * up, n);
        });
        dgate_up += 2 * size, a += size, da += size, gate_up += 2 * size;
    }
}

}  // namespace
}  // namespace roll::simd
