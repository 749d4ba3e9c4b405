// Attention of one head, a block of queries by a block of keys at a time, so that scores stay in
// the first cache: FlashAttention's order (Dao et al., 2022). Included by kernels_impl.hpp alone
// and under its rules.
#pragma once

#include "worker/train/simd/product_impl.hpp"
#include "worker/train/simd/scores_impl.hpp"

namespace roll::simd {
namespace {

constexpr std::int64_t kQueries = 32, kKeys = 64;  // of a block; AttentionHead::scratch knows them

template <class S>
std::int64_t first_block(const AttentionHead<S>& head, std::int64_t query) {
    return head.first == nullptr ? 0 : head.first[query] / kKeys * kKeys;
}

// out[d][j] = rows[j][d] for a block of keys; columns that are not there are 0.
template <class S, class T = Wide<S>>
void transpose_block(T* out, const S* rows, std::int64_t columns, std::int64_t dim) {
    for (std::int64_t d = 0; d < dim; ++d) {
        for (std::int64_t j = 0; j < columns; ++j)
            out[d * kKeys + j] = static_cast<T>(rows[j * dim + d]);
        fill(out + d * kKeys + columns, T{0}, kKeys - columns);
    }
}

template <class S>
void attention(const AttentionHead<S>& head, S* out, Wide<S>* logsumexp, std::int64_t stride,
               Wide<S>* scratch) {
    using T = Wide<S>;
    const std::int64_t dim = head.dim, positions = head.positions;
    T* const keys = scratch;  // transposed, block after block
    T* const scores = keys + (positions + kKeys) * dim;
    T *const gathered = scores + kQueries * kKeys, *const room = gathered + kQueries * dim;
    const T* const values = widened(head.v, room, positions * dim);
    const T* const queries = widened(head.q, room + positions * dim, positions * dim);
    for (std::int64_t key = 0; key < positions; key += kKeys)
        transpose_block(keys + key * dim, head.k + key * dim,
                        positions - key < kKeys ? positions - key : kKeys, dim);
    T max[kQueries], sum[kQueries];
    for (std::int64_t query = 0; query < positions; query += kQueries) {
        const std::int64_t rows = positions - query < kQueries ? positions - query : kQueries;
        fill(gathered, T{0}, rows * dim);
        fill(max, -std::numeric_limits<T>::infinity(), rows);
        fill(sum, T{0}, rows);
        for (std::int64_t key = first_block(head, query); key < query + rows; key += kKeys) {
            const std::int64_t left = query + rows - key, columns = left < kKeys ? left : kKeys;
            product<T>({scores, kKeys}, {queries + query * dim, dim, 1}, {keys + key * dim, kKeys},
                       {rows, columns, dim}, false);
            for (std::int64_t row = 0; row < rows; ++row)
                soften(scores + row * kKeys, seen(head, query + row, key, columns), columns, head,
                       max[row], sum[row], gathered + row * dim);
            product<T>({gathered, dim}, {scores, kKeys, 1}, {values + key * dim, dim},
                       {rows, dim, columns}, true);
        }
        for (std::int64_t row = 0; row < rows; ++row) {
            const Vec<T> one(1 / sum[row]);
            for_lanes<T>(dim, [&](std::int64_t i, std::int64_t n) {
                put(out + (query + row) * stride + i, get(gathered + row * dim + i, n) * one, n);
            });
            logsumexp[query + row] = max[row] + std::log(sum[row]);
        }
    }
}

// What backward reads again and again, wide, and delta = out . dout of each position.
template <class S>
struct BackwardInputs {
    using T = Wide<S>;
    const T *q, *k, *dout;
    std::int64_t dout_stride;
    const T* delta;
};
template <class S, class T = Wide<S>>
BackwardInputs<S> backward_inputs(const AttentionHead<S>& head, const AttentionGrads<S>& grads,
                                  std::int64_t stride, T* delta) {
    const std::int64_t dim = head.dim, positions = head.positions;
    for (std::int64_t t = 0; t < positions; ++t)
        delta[t] = sum_of<T>(dim, [&](std::int64_t i, std::int64_t n) {
            return get(grads.dout + t * stride + i, n) * get(grads.out + t * stride + i, n);
        });
    T* const room = delta + positions;
    const T *const q = widened(head.q, room, positions * dim), *const k = widened(
                                                                   head.k, room + positions * dim,
                                                                   positions * dim);
    if constexpr (std::is_same_v<S, T>) return {q, k, grads.dout, stride, delta};
    T* const dout = room + 2 * positions * dim;
    for (std::int64_t t = 0; t < positions; ++t)
        widened(grads.dout + t * stride, dout + t * dim, dim);
    return {q, k, dout, dim, delta};
}

template <class S>
void attention_backward(const AttentionHead<S>& head, const AttentionGrads<S>& grads,
                        std::int64_t stride, Wide<S>* scratch) {
    using T = Wide<S>;
    const std::int64_t dim = head.dim, positions = head.positions;
    T *const keys = scratch, *const values = keys + kKeys * dim;
    T *const scores = values + kKeys * dim, *const dp = scores + kQueries * kKeys;
    const BackwardInputs<S> in = backward_inputs(head, grads, stride, dp + kQueries * kKeys);
    fill(grads.dq, T{0}, positions * dim);
    fill(grads.dk, T{0}, positions * dim);
    fill(grads.dv, T{0}, positions * dim);
    for (std::int64_t key = 0; key < positions; key += kKeys) {
        const std::int64_t there = positions - key < kKeys ? positions - key : kKeys;
        transpose_block(keys, head.k + key * dim, there, dim);
        transpose_block(values, head.v + key * dim, there, dim);
        for (std::int64_t query = key / kQueries * kQueries; query < positions; query += kQueries) {
            if (first_block(head, query) > key) break;
            const std::int64_t rows = positions - query < kQueries ? positions - query : kQueries;
            const std::int64_t left = query + rows - key, columns = left < there ? left : there;
            const T *q = in.q + query * dim, *d_out = in.dout + query * in.dout_stride;
            product<T>({scores, kKeys}, {q, dim, 1}, {keys, kKeys}, {rows, columns, dim}, false);
            product<T>({dp, kKeys}, {d_out, in.dout_stride, 1}, {values, kKeys},
                       {rows, columns, dim}, false);
            for (std::int64_t row = 0; row < rows; ++row)
                unsoften(scores + row * kKeys, dp + row * kKeys,
                         seen(head, query + row, key, columns), columns, head,
                         grads.logsumexp[query + row], in.delta[query + row]);
            product<T>({grads.dv + key * dim, dim}, {scores, 1, kKeys}, {d_out, in.dout_stride},
                       {columns, dim, rows}, true);
            product<T>({grads.dk + key * dim, dim}, {dp, 1, kKeys}, {q, dim}, {columns, dim, rows},
                       true);
            product<T>({grads.dq + query * dim, dim}, {dp, kKeys, 1}, {in.k + key * dim, dim},
                       {rows, dim, columns}, true);
        }
    }
}

}  // namespace
}  // namespace roll::simd
