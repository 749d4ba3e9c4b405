// The row loops behind the operators, compiled once for each vector width and chosen at run time,
// so that one program runs on every x86-64. Pointers and sizes only: no tensor, no thread.
//
// Rows are contiguous, one after the other. A row's result does not depend on the other rows.
#pragma once

#include <cstdint>
#include <type_traits>

#include <c10/util/BFloat16.h>

namespace roll::simd {

// What numbers that are stored as S are computed in: bfloat16 is widened in registers, on the way
// from memory and back.
template <class S>
using Wide = std::conditional_t<std::is_same_v<S, c10::BFloat16>, float, S>;

struct AdamWFactors {
    double grad_scale;  // of the gradient, before anything else
    double keep;        // 1 - lr * weight_decay
    double beta1, beta2;
    double step;  // lr / (1 - beta1^t)
    double root;  // sqrt(1 - beta2^t)
    double eps;
};

// One query head of causal attention and the key head that it reads, each `positions` rows of
// `dim`. Scores are scale * q . k, and cap * tanh(that / cap) with a soft cap (0: none). Position t
// sees the keys [first[t], t]; first never falls, and a null first is all 0.
template <class S>
struct AttentionHead {
    const S *q, *k, *v;
    std::int64_t positions, dim;
    Wide<S> scale, soft_cap;
    const std::int64_t* first;

    // How many Wide<S> the kernels want to work in.
    std::int64_t scratch() const {
        const std::int64_t widened = std::is_same_v<S, Wide<S>> ? 0 : 3 * positions * dim;
        return (positions + 160) * (dim + 1) + 4 * 32 * 64 + widened;
    }
};

// What backward reads besides (out, dout with a stride between positions, logsumexp) and what it
// overwrites (dq, dk, dv as the head's q, k, v lie).
template <class S>
struct AttentionGrads {
    const S *out, *dout;
    const Wide<S>* logsumexp;
    Wide<S>*dq, *dk, *dv;
};

template <class S>
struct Kernels {
    using W = Wide<S>;

    // y = x * rstd * w with rstd = 1 / sqrt(mean(x^2) + eps).
    void (*rms_norm)(S* y, W* rstd, const S* x, const W* w, double eps, std::int64_t rows,
                     std::int64_t size);

    // With n = x * rstd: dx = past (0 if null) + rstd * (dy * w - n * mean(dy * w * n)), dw += sum
    // over rows of dy * n.
    void (*rms_norm_backward)(S* dx, W* dw, const S* dy, const W* w, const S* x, const S* past,
                              const W* rstd, std::int64_t rows, std::int64_t size);

    // Turns pairs (i, half + i) of a vector by angles; turn_back is turn's backward.
    void (*turn)(S* out, const S* in, const W* cos, const W* sin, std::int64_t half);
    void (*turn_back)(S* out, const W* in, const W* cos, const W* sin, std::int64_t half);
    void (*round)(S* out, const W* in, std::int64_t size);

    // a = silu(gate) * up; a row of gate_up is gate, then up, `size` each.
    void (*swiglu)(S* a, const S* gate_up, std::int64_t rows, std::int64_t size);
    // Gives a once more besides.
    void (*swiglu_backward)(S* dgate_up, S* a, const S* da, const S* gate_up, std::int64_t rows,
                            std::int64_t size);

    // Returns -log softmax(logits)[target] and turns logits into scale * (softmax -
    // onehot(target)). `room` is `size` numbers to work in; where nothing is widened, the logits
    // themselves.
    double (*cross_entropy)(S* logits, W* room, std::int64_t target, double scale,
                            std::int64_t size);

    // One AdamW update of `size` elements, rounded where torch.optim.AdamW(fused=True) rounds.
    // Weights of bfloat16 are float32 in halves (halves.hpp); others have no rest.
    void (*adamw)(S* weight, std::int16_t* rest, W* average, W* square, const W* grad,
                  const AdamWFactors& factors, std::int64_t size);

    // out[t * stride ...] = softmax(scores) @ v, and each position's log sum exp(scores).
    void (*attention)(const AttentionHead<S>& head, S* out, W* logsumexp, std::int64_t stride,
                      W* scratch);
    void (*attention_backward)(const AttentionHead<S>& head, const AttentionGrads<S>& grads,
                               std::int64_t stride, W* scratch);

    // A matrix widened to rows of `columns`. from's rows begin `stride` after each other or,
    // `turned`, its columns do.
    void (*pack)(W* to, std::int64_t to_stride, const S* from, std::int64_t stride, bool turned,
                 std::int64_t rows, std::int64_t columns);
};

// The widest vectors that processor() allows. S is float, double or c10::BFloat16.
template <class S>
const Kernels<S>& kernels();

// "avx512_bf16", "avx512", "avx2" or "default": the choice of kernels().
const char* kernel_width();

}  // namespace roll::simd
