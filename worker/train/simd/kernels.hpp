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

// One query head of causal attention and the key head that it reads, each `positions` rows of
// `dim`. Scores are scale * q . k, and cap * tanh(that / cap) with a soft cap (0: none). Position t
// sees the keys [first[t], t]; first never falls, and a null first is all 0.
template <class T>
struct AttentionHead {
    const T *q, *k, *v;
    std::int64_t positions, dim;
    T scale, soft_cap;
    const std::int64_t* first;

    // How many T the kernels want to work in.
    std::int64_t scratch() const { return (positions + 160) * (dim + 1) + 2 * 32 * 64; }
};

// What backward reads besides (out, dout with a stride between positions, logsumexp) and what it
// overwrites (dq, dk, dv as the head's q, k, v lie).
template <class T>
struct AttentionGrads {
    const T *out, *dout, *logsumexp;
    T *dq, *dk, *dv;
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

    // out[t * stride ...] = softmax(scores) @ v, and each position's log sum exp(scores).
    void (*attention)(const AttentionHead<T>& head, T* out, T* logsumexp, std::int64_t stride,
                      T* scratch);
    void (*attention_backward)(const AttentionHead<T>& head, const AttentionGrads<T>& grads,
                               std::int64_t stride, T* scratch);
};

// What fits this processor best. T is float or double.
template <class T>
const Kernels<T>& kernels();

// "avx512", "avx2" or "default": the choice of kernels().
const char* kernel_width();

}  // namespace roll::simd
