// The row loops behind the operators, compiled once for each vector width and chosen at run time,
// so that one program runs on every x86-64. Pointers and sizes only: no tensor, no thread.
//
// Rows are contiguous, one after the other. A row's result does not depend on the other rows.
#pragma once

#include <cstdint>

namespace roll::simd {

struct AdamWFactors {
    double grad_scale;  // of the gradient, before anything else
    double keep;        // 1 - lr * weight_decay
    double beta1, beta2;
    double step;          // lr / (1 - beta1^t)
    double square_scale;  // 1 / sqrt(1 - beta2^t)
    double eps;
};

template <class T>
struct Kernels {
    // y = x * rstd * w with rstd = 1 / sqrt(mean(x^2) + eps).
    void (*rms_norm)(T* y, T* rstd, const T* x, const T* w, double eps, std::int64_t rows,
                     std::int64_t size);

    // With n = x * rstd: dx = past (0 if null) + rstd * (dy * w - n * mean(dy * w * n)), dw += sum
    // over rows of dy * n.
    void (*rms_norm_backward)(T* dx, T* dw, const T* dy, const T* w, const T* x, const T* past,
                              const T* rstd, std::int64_t rows, std::int64_t size);

    // Turns pairs (i, half + i) of a vector by angles; direction -1 turns back.
    void (*turn)(T* out, const T* in, const T* cos, const T* sin, T direction, std::int64_t half);

    // a = silu(gate) * up; a row of gate_up is gate, then up, `size` each.
    void (*swiglu)(T* a, const T* gate_up, std::int64_t rows, std::int64_t size);
    void (*swiglu_backward)(T* dgate_up, const T* da, const T* gate_up, std::int64_t rows,
                            std::int64_t size);

    // Returns -log softmax(logits)[target] and turns logits into scale * (softmax -
    // onehot(target)).
    double (*cross_entropy)(T* logits, std::int64_t target, double scale, std::int64_t size);

    // One AdamW update of `size` elements.
    void (*adamw)(T* weight, T* average, T* square, const T* grad, const AdamWFactors& factors,
                  std::int64_t size);
};

// What fits this processor best. T is float or double.
template <class T>
const Kernels<T>& kernels();

// "avx512", "avx2" or "default": the choice of kernels().
const char* kernel_width();

}  // namespace roll::simd
