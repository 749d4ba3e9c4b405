// The backward pass of attention_impl.hpp, in blocks of the same size. Only kernels_impl.hpp
// includes this file. The rules of kernels_impl.hpp apply.
#pragma once

#include <cstdint>

#include "worker/train/ops/cpu/simd/attention_impl.hpp"

namespace roll::simd {
namespace {

// Inputs of backward that are prepared once and read for every block. `delta` holds the dot product
// of out and dout for each position. The matrices are in the layout of the left or right operands
// of product() (operands_impl.hpp).
template <class T, class E>
struct BackwardInputs {
    const T* delta;
    Rows<const E> q, dout;                          // left operands
    Rows<const E> q_across, k_across, dout_across;  // right operands
};
template <class E, class S, class T = Wide<S>>
BackwardInputs<T, E> backward_inputs(const AttentionHead<S>& head, const AttentionGrads<S>& grads,
                                     std::int64_t stride, T* delta) {
    const std::int64_t dim = head.dim;
    for (std::int64_t t = 0; t < head.queries; ++t)
        delta[t] = sum_of<T>(dim, [&](std::int64_t i, std::int64_t n) {
            return get(grads.dout + t * stride + i, n) * get(grads.out + t * stride + i, n);
        });
    const Rows<const S> q{head.q, dim}, k{head.k, dim}, dout{grads.dout, stride};
    E* const room = reinterpret_cast<E*>(delta + head.queries);
    const auto lie_across = [&](Rows<const S> rows, std::int64_t place, std::int64_t count) {
        return across(rows, room + place * (head.keys + 1) * dim, count, dim);
    };
    BackwardInputs<T, E> in{delta,
                            {},
                            {},
                            lie_across(q, 0, head.queries),
                            lie_across(k, 1, head.keys),
                            lie_across(dout, 2, head.queries)};
    if constexpr (kNumbers<E> == 1) {
        in.q = in.q_across;
        in.dout = in.dout_across;
    } else {
        in.q = packed<E>(q);
        in.dout = packed<E>(dout);
    }
    return in;
}

template <class S, class E>
void attention_backward_by(const AttentionHead<S>& head, const AttentionGrads<S>& grads,
                           std::int64_t stride, Wide<S>* scratch) {
    using T = Wide<S>;
    constexpr std::int64_t kBlock = kQueries * kKeys;
    const std::int64_t dim = head.dim, inner = factors<E>(dim), before = head.before();
    T *const scores = scratch, *const dp = scores + kBlock;
    // memory for blocks of scores, converted to factors (factors_impl.hpp); unused if E is T
    E* const weights = reinterpret_cast<E*>(dp + kBlock);
    E *const keys = weights + 3 * kBlock / 2, *const values = keys + kKeys * inner;
    const auto in =
        backward_inputs<E>(head, grads, stride, reinterpret_cast<T*>(values + kKeys * inner));
    fill(grads.dq, T{0}, head.queries * dim);
    fill(grads.dk, T{0}, head.keys * dim);
    fill(grads.dv, T{0}, head.keys * dim);
    for (std::int64_t key = 0; key < head.keys; key += kKeys) {
        const std::int64_t there = head.keys - key < kKeys ? head.keys - key : kKeys;
        transpose_block(Rows<E>{keys, kKeys}, Rows<const S>{head.k + key * dim, dim}, there, dim);
        transpose_block(Rows<E>{values, kKeys}, Rows<const S>{head.v + key * dim, dim}, there, dim);
        const std::int64_t first = key < before ? 0 : (key - before) / kQueries * kQueries;
        for (std::int64_t query = first; query < head.queries; query += kQueries) {
            if (first_block(head, query) > key) break;
            const std::int64_t last = head.queries - query;
            const std::int64_t rows = last < kQueries ? last : kQueries;
            const std::int64_t left = query + before + rows - key;
            const std::int64_t columns = left < there ? left : there;
            const Rows<const E> q = in.q.from(query), dout = in.dout.from(query);
            product<T, E>({scores, kKeys}, {q.data, q.stride, 1}, {keys, kKeys},
                          {rows, columns, inner}, false);
            product<T, E>({dp, kKeys}, {dout.data, dout.stride, 1}, {values, kKeys},
                          {rows, columns, inner}, false);
            for (std::int64_t row = 0; row < rows; ++row)
                unsoften(scores + row * kKeys, dp + row * kKeys,
                         seen(head, query + row, key, columns), columns, head,
                         grads.logsumexp[query + row], in.delta[query + row]);
            const Rows<const T> p{scores, kKeys}, ds{dp, kKeys};
            const std::int64_t half = query / kNumbers<E>, sums = factors<E>(rows);
            product<T, E>({grads.dv + key * dim, dim}, over_rows(p, weights, rows, columns),
                          in.dout_across.from(half), {columns, dim, sums}, true);
            product<T, E>({grads.dk + key * dim, dim},
                          over_rows(ds, weights + kBlock / 2, rows, columns),
                          in.q_across.from(half), {columns, dim, sums}, true);
            product<T, E>(
                {grads.dq + query * dim, dim}, over_columns(ds, weights + kBlock, rows, columns),
                in.k_across.from(key / kNumbers<E>), {rows, dim, factors<E>(columns)}, true);
        }
    }
}

template <class S>
void attention_backward(const AttentionHead<S>& head, const AttentionGrads<S>& grads,
                        std::int64_t stride, Wide<S>* scratch) {
    if (head.dim % kNumbers<Factor<S>> == 0)
        attention_backward_by<S, Factor<S>>(head, grads, stride, scratch);
    else
        attention_backward_by<S, Wide<S>>(head, grads, stride, scratch);
}

}  // namespace
}  // namespace roll::simd
