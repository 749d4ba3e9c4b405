// Loops over rows for the operators. The loops (kernels) are compiled once per vector width and
// selected at run time, so that one program runs on every x86-64 processor. The kernels take only
// pointers and sizes: no tensors, no threads.
//
// Rows are contiguous and consecutive. A row's result does not depend on the other rows.
#pragma once

#include <cstdint>
#include <type_traits>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace roll::simd {

// The type in which numbers that are stored as S are computed. bfloat16 and float16 are widened to
// float on load, and rounded on store.
template <class S>
using Wide = std::conditional_t<std::is_floating_point_v<S>, S, float>;

struct AdamWFactors {
    double grad_scale;  // factor by which the gradient is multiplied first
    double keep;        // 1 - lr * weight_decay
    double beta1, beta2;
    double step;  // lr / (1 - beta1^t)
    double root;  // sqrt(1 - beta2^t)
    double eps;
};

// One query head of causal attention, and its key and value head. There are `queries` queries,
// which belong to the last of the `keys` positions. Each query, key and value has `dim` numbers. A
// score is scale * q . k or, with a soft cap (0: none), cap * tanh(scale * q . k / cap). Query t
// attends to the keys [first[t], t + before()]. `first` must not decrease; null means all 0.
template <class S>
struct AttentionHead {
    const S *q, *k, *v;
    std::int64_t queries, keys, dim;
    Wide<S> scale, soft_cap;
    const std::int64_t* first;

    // Returns the number of keys before the first query's own key.
    std::int64_t before() const { return keys - queries; }

    // Returns the size of the scratch memory that the kernels need, in elements of Wide<S>.
    std::int64_t scratch() const {
        const std::int64_t widened = std::is_same_v<S, Wide<S>> ? 0 : 3 * keys * dim;
        return (keys + 160) * (dim + 1) + 4 * 32 * 64 + widened;
    }
};

// Further arguments of backward. Input: out and dout, whose positions are `stride` elements apart,
// and logsumexp. Output: dq, dk and dv, in the layout of the head's q, k and v. Backward overwrites
// the old content of the output.
template <class S>
struct AttentionGrads {
    const S *out, *dout;
    const Wide<S>* logsumexp;
    Wide<S>*dq, *dk, *dv;
};

template <class S>
struct Kernels {
    using W = Wide<S>;

    // Computes y = x * rstd * w with rstd = 1 / sqrt(mean(x^2) + eps).
    void (*rms_norm)(S* y, W* rstd, const S* x, const W* w, double eps, std::int64_t rows,
                     std::int64_t size);

    // Computes dx = past (0 if null) + rstd * (dy * w - n * mean(dy * w * n)), where n = x * rstd.
    // Adds the sum of dy * n over the rows to dw.
    void (*rms_norm_backward)(S* dx, W* dw, const S* dy, const W* w, const S* x, const S* past,
                              const W* rstd, std::int64_t rows, std::int64_t size);

    // Rotates the pairs (i, half + i) of a vector. turn_back() is the backward of turn().
    void (*turn)(S* out, const S* in, const W* cos, const W* sin, std::int64_t half);
    void (*turn_back)(S* out, const W* in, const W* cos, const W* sin, std::int64_t half);
    void (*round)(S* out, const W* in, std::int64_t size);

    // Computes a = silu(gate) * up. Each row of gate_up holds `size` numbers of gate, then `size`
    // numbers of up.
    void (*swiglu)(S* a, const S* gate_up, std::int64_t rows, std::int64_t size);
    // Computes dgate_up from da. Also recomputes a.
    void (*swiglu_backward)(S* dgate_up, S* a, const S* da, const S* gate_up, std::int64_t rows,
                            std::int64_t size);

    // Returns -log softmax(logits)[target], and overwrites the logits with their gradient, scale *
    // (softmax - onehot(target)). `room` is scratch memory for `size` numbers. If S is not widened,
    // `room` may be `logits`.
    double (*cross_entropy)(S* logits, W* room, std::int64_t target, double scale,
                            std::int64_t size);

    // Makes one AdamW update of `size` elements, with the same rounding as
    // torch.optim.AdamW(fused=True). If S is bfloat16, `weight` and `rest` hold the two halves
    // (halves.hpp) of float32 weights, and the float32 weights are updated. float and double ignore
    // `rest`. Null for float16: the kernel of float updates its float32 weights.
    void (*adamw)(S* weight, std::int16_t* rest, W* average, W* square, const W* grad,
                  const AdamWFactors& factors, std::int64_t size);

    // Computes softmax(scores) @ v into `out`, whose positions are `stride` elements apart, and
    // log(sum(exp(scores))) of each position into `logsumexp`.
    void (*attention)(const AttentionHead<S>& head, S* out, W* logsumexp, std::int64_t stride,
                      W* scratch);
    void (*attention_backward)(const AttentionHead<S>& head, const AttentionGrads<S>& grads,
                               std::int64_t stride, W* scratch);

    // Copies a matrix, widened to W. The rows of `to` have `columns` numbers. `stride` is the
    // distance between the rows of `from` or, if `turned`, between its columns.
    void (*pack)(W* to, std::int64_t to_stride, const S* from, std::int64_t stride, bool turned,
                 std::int64_t rows, std::int64_t columns);
};

}  // namespace roll::simd
