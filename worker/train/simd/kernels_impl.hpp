// The kernels for the vector width that this file is compiled for. Included by simd/kernels_*.cpp
// alone, each with flags of its own. What it includes must be in namespaces of the width (at::vec
// is) or be inlined whole: a function shared with the rest of the program could be kept in a form
// that the processor lacks.
#pragma once

#include "worker/train/simd/attention_impl.hpp"

namespace roll::simd {
namespace {

template <class T>
void rms_norm(T* y, T* rstd, const T* x, const T* w, double eps, std::int64_t rows,
              std::int64_t size) {
    for (std::int64_t row = 0; row < rows; ++row, y += size, x += size) {
        const T square =
            at::vec::map_reduce_all<T>([](Vec<T> v) { return v * v; }, Plus(), x, size);
        const T r = static_cast<T>(1 / std::sqrt(square / static_cast<double>(size) + eps));
        at::vec::map2<T>([r](Vec<T> a, Vec<T> b) { return a * Vec<T>(r) * b; }, y, x, w, size);
        rstd[row] = r;
    }
}

template <class T>
void rms_norm_backward(T* dx, T* dw, const T* dy, const T* w, const T* x, const T* past,
                       const T* rstd, std::int64_t rows, std::int64_t size) {
    for (std::int64_t row = 0; row < rows; ++row) {
        const T dot = at::vec::map3_reduce_all<T>(
            [](Vec<T> a, Vec<T> b, Vec<T> c) { return a * b * c; }, Plus(), dy, w, x, size);
        const Vec<T> r(rstd[row]);
        const Vec<T> pull(rstd[row] * rstd[row] * rstd[row] * dot / static_cast<T>(size));
        for (std::int64_t i = 0; i < size; i += Vec<T>::size()) {
            const int n = static_cast<int>(size - i < Vec<T>::size() ? size - i : Vec<T>::size());
            const Vec<T> g = Vec<T>::loadu(dy + i, n), value = Vec<T>::loadu(x + i, n);
            const Vec<T> rg = r * g;
            const Vec<T> d = rg * Vec<T>::loadu(w + i, n) - pull * value;
            (past == nullptr ? d : Vec<T>::loadu(past + i, n) + d).store(dx + i, n);
            (Vec<T>::loadu(dw + i, n) + rg * value).store(dw + i, n);
        }
        dx += size, dy += size, x += size;
        if (past != nullptr) past += size;
    }
}

template <class T>
void turn(T* __restrict out, const T* __restrict in, const T* __restrict cos,
          const T* __restrict sin, T direction, std::int64_t half) {
    for (std::int64_t i = 0; i < half; ++i) {
        const T a = in[i], b = in[half + i], s = direction * sin[i];
        out[i] = a * cos[i] - b * s;
        out[half + i] = b * cos[i] + a * s;
    }
}

template <class T>
Vec<T> sigmoid(Vec<T> x) {
    return Vec<T>(1) / (Vec<T>(1) + x.neg().exp());
}

template <class T>
void swiglu(T* a, const T* gate_up, std::int64_t rows, std::int64_t size) {
    for (std::int64_t row = 0; row < rows; ++row, a += size, gate_up += 2 * size)
        at::vec::map2<T>([](Vec<T> g, Vec<T> u) { return g * sigmoid<T>(g) * u; }, a, gate_up,
                         gate_up + size, size);
}

template <class T>
void swiglu_backward(T* dgate_up, const T* da, const T* gate_up, std::int64_t rows,
                     std::int64_t size) {
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < size; i += Vec<T>::size()) {
            const int n = static_cast<int>(size - i < Vec<T>::size() ? size - i : Vec<T>::size());
            const Vec<T> gate = Vec<T>::loadu(gate_up + i, n);
            const Vec<T> up = Vec<T>::loadu(gate_up + size + i, n);
            const Vec<T> d = Vec<T>::loadu(da + i, n), s = sigmoid<T>(gate);
            (d * up * s * (Vec<T>(1) + gate * (Vec<T>(1) - s))).store(dgate_up + i, n);
            (d * gate * s).store(dgate_up + size + i, n);
        }
        dgate_up += 2 * size, da += size, gate_up += 2 * size;
    }
}

template <class T>
double cross_entropy(T* logits, std::int64_t target, double scale, std::int64_t size) {
    const T max = at::vec::reduce_all<T>(Larger(), logits, size);
    const T wanted = logits[target];
    at::vec::map<T>([max](Vec<T> x) { return (x - Vec<T>(max)).exp(); }, logits, logits, size);
    const T sum = at::vec::reduce_all<T>(Plus(), logits, size);
    const T factor = static_cast<T>(scale) / sum;
    at::vec::map<T>([factor](Vec<T> x) { return x * Vec<T>(factor); }, logits, logits, size);
    logits[target] -= static_cast<T>(scale);
    return static_cast<double>(max - wanted) + std::log(static_cast<double>(sum));
}

template <class T>
void adamw(T* __restrict weight, T* __restrict average, T* __restrict square,
           const T* __restrict grad, const AdamWFactors& factors, std::int64_t size) {
    const T scale = static_cast<T>(factors.grad_scale), keep = static_cast<T>(factors.keep);
    const T new1 = static_cast<T>(1 - factors.beta1), beta2 = static_cast<T>(factors.beta2);
    const T new2 = static_cast<T>(1 - factors.beta2), step = static_cast<T>(factors.step);
    const T square_scale = static_cast<T>(factors.square_scale), eps = static_cast<T>(factors.eps);
    for (std::int64_t i = 0; i < size; ++i) {
        const T g = grad[i] * scale;
        const T m = average[i] + new1 * (g - average[i]);
        const T v = beta2 * square[i] + new2 * g * g;
        average[i] = m;
        square[i] = v;
        weight[i] = keep * weight[i] - step * m / (std::sqrt(v) * square_scale + eps);
    }
}

template <class T>
constexpr Kernels<T> kTable{&rms_norm<T>, &rms_norm_backward<T>, &turn<T>,
                            &swiglu<T>,   &swiglu_backward<T>,   &cross_entropy<T>,
                            &adamw<T>,    &attention<T>,         &attention_backward<T>};

}  // namespace
}  // namespace roll::simd
