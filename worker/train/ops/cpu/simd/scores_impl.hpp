// Converts a query's scores of one block of keys to softmax weights. For backward, converts the
// gradient of the weights to the gradient of the scores. Only attention_impl.hpp includes this
// file. The rules of kernels_impl.hpp apply.
#pragma once

#include <cstdint>

#include "worker/train/ops/cpu/simd/lanes_impl.hpp"

namespace roll::simd {
namespace {

// The range [begin, end) of columns in a block of keys to which a query attends.
struct Seen {
    std::int64_t begin, end;
};
template <class S>
Seen seen(const AttentionHead<S>& head, std::int64_t query, std::int64_t key,
          std::int64_t columns) {
    const std::int64_t begin = head.first == nullptr ? 0 : head.first[query] - key;
    const std::int64_t past = query + head.before() + 1 - key;
    const std::int64_t end = past < columns ? past : columns;
    return {begin < 0 ? 0 : begin, end < 0 ? 0 : end};
}

template <class T>
Vec<T> capped(Vec<T> score, T scale, T cap) {
    return cap > 0 ? Vec<T>(cap) * (score * Vec<T>(scale / cap)).tanh() : score * Vec<T>(scale);
}

// Replaces a query's scores by exp(score - max). Updates `max` and `sum`, which cover all keys so
// far. `out` was accumulated with the previous max; rescales `out` to the new max.
template <class S, class T = Wide<S>>
void soften(T* score, Seen range, std::int64_t columns, const AttentionHead<S>& head, T& max,
            T& sum, T* out) {
    fill(score, T{0}, range.begin < columns ? range.begin : columns);
    if (range.begin >= range.end) return fill(score, T{0}, columns);
    fill(score + range.end, T{0}, columns - range.end);
    T* const own = score + range.begin;
    const std::int64_t size = range.end - range.begin;
    const T scale = head.scale, cap = head.soft_cap;
    at::vec::map<T>([scale, cap](Vec<T> s) { return capped<T>(s, scale, cap); }, own, own, size);
    const T here = at::vec::reduce_all<T>(Larger(), own, size), top = here > max ? here : max;
    at::vec::map<T>([top](Vec<T> s) { return (s - Vec<T>(top)).exp_u20(); }, own, own, size);
    const T shrink = std::exp(max - top);
    sum = sum * shrink + at::vec::reduce_all<T>(Plus(), own, size);
    max = top;
    for (std::int64_t d = 0; d < head.dim; ++d) out[d] *= shrink;
}

// Replaces a query's scores by the probabilities. Replaces `dp`, the gradient of the
// probabilities, by the gradient of the products of queries and keys.
template <class S, class T = Wide<S>>
void unsoften(T* score, T* dp, Seen range, std::int64_t columns, const AttentionHead<S>& head,
              T logsumexp, T delta) {
    for (std::int64_t i = 0; i < columns; i += Vec<T>::size()) {
        const int n = static_cast<int>(columns - i < Vec<T>::size() ? columns - i : Vec<T>::size());
        const Vec<T> s = capped<T>(Vec<T>::loadu(score + i, n), head.scale, head.soft_cap);
        const Vec<T> p = (s - Vec<T>(logsumexp)).exp_u20();
        Vec<T> d = p * (Vec<T>::loadu(dp + i, n) - Vec<T>(delta)) * Vec<T>(head.scale);
        const Vec<T> part = s * Vec<T>(head.soft_cap > 0 ? 1 / head.soft_cap : T{0});
        if (head.soft_cap > 0) d = d * (Vec<T>(1) - part * part);
        p.store(score + i, n);
        d.store(dp + i, n);
    }
    const std::int64_t begin = range.begin < range.end ? range.begin : columns;
    for (T* row : {score, dp}) {
        fill(row, T{0}, begin);
        if (begin < columns) fill(row + range.end, T{0}, columns - range.end);
    }
}

}  // namespace
}  // namespace roll::simd
