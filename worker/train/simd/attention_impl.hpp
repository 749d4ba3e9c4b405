// Attention of one head, a block of queries by a block of keys at a time, so that scores stay in
// the first cache: FlashAttention's order (Dao et al., 2022). Included by kernels_impl.hpp alone
// and under its rules.
#pragma once

#include "worker/train/simd/product_impl.hpp"
#include "worker/train/simd/scores_impl.hpp"

namespace roll::simd {
namespace {

constexpr std::int64_t kQueries = 32, kKeys = 64;  // of a block; AttentionHead::scratch knows them

template <class T>
std::int64_t first_block(const AttentionHead<T>& head, std::int64_t query) {
    return head.first == nullptr ? 0 : head.first[query] / kKeys * kKeys;
}

// out[d][j] = rows[j][d] for a block of keys; columns that are not there are 0.
template <class T>
void transpose_block(T* out, const T* rows, std::int64_t columns, std::int64_t dim) {
    for (std::int64_t d = 0; d < dim; ++d) {
        for (std::int64_t j = 0; j < columns; ++j) out[d * kKeys + j] = rows[j * dim + d];
        fill(out + d * kKeys + columns, T{0}, kKeys - columns);
    }
}

template <class T>
void attention(const AttentionHead<T>& head, T* out, T* logsumexp, std::int64_t stride,
               T* scratch) {
    const std::int64_t dim = head.dim, positions = head.positions;
    T* const keys = scratch;  // transposed, block after block
    T* const scores = keys + (positions + kKeys) * dim;
    for (std::int64_t key = 0; key < positions; key += kKeys)
        transpose_block(keys + key * dim, head.k + key * dim,
                        positions - key < kKeys ? positions - key : kKeys, dim);
    T max[kQueries], sum[kQueries];
    for (std::int64_t query = 0; query < positions; query += kQueries) {
        const std::int64_t rows = positions - query < kQueries ? positions - query : kQueries;
        T* const gathered = scores + kQueries * kKeys;
        fill(gathered, T{0}, rows * dim);
        fill(max, -std::numeric_limits<T>::infinity(), rows);
        fill(sum, T{0}, rows);
        for (std::int64_t key = first_block(head, query); key < query + rows; key += kKeys) {
            const std::int64_t left = query + rows - key, columns = left < kKeys ? left : kKeys;
            product<T>({scores, kKeys}, {head.q + query * dim, dim, 1}, {keys + key * dim, kKeys},
                       {rows, columns, dim}, false);
            for (std::int64_t row = 0; row < rows; ++row)
                soften(scores + row * kKeys, seen(head, query + row, key, columns), columns, head,
                       max[row], sum[row], gathered + row * dim);
            product<T>({gathered, dim}, {scores, kKeys, 1}, {head.v + key * dim, dim},
                       {rows, dim, columns}, true);
        }
        for (std::int64_t row = 0; row < rows; ++row) {
            const T one = 1 / sum[row];
            at::vec::map<T>([one](Vec<T> x) { return x * Vec<T>(one); },
                            out + (query + row) * stride, gathered + row * dim, dim);
            logsumexp[query + row] = max[row] + std::log(sum[row]);
        }
    }
}

template <class T>
void attention_backward(const AttentionHead<T>& head, const AttentionGrads<T>& grads,
                        std::int64_t stride, T* scratch) {
    const std::int64_t dim = head.dim, positions = head.positions;
    T *const keys = scratch, *const values = keys + kKeys * dim;
    T *const scores = values + kKeys * dim, *const dp = scores + kQueries * kKeys;
    T* const delta = dp + kQueries * kKeys;
    for (std::int64_t t = 0; t < positions; ++t)
        delta[t] =
            at::vec::map2_reduce_all<T>([](Vec<T> a, Vec<T> b) { return a * b; }, Plus(),
                                        grads.dout + t * stride, grads.out + t * stride, dim);
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
            const T *q = head.q + query * dim, *d_out = grads.dout + query * stride;
            product<T>({scores, kKeys}, {q, dim, 1}, {keys, kKeys}, {rows, columns, dim}, false);
            product<T>({dp, kKeys}, {d_out, stride, 1}, {values, kKeys}, {rows, columns, dim},
                       false);
            for (std::int64_t row = 0; row < rows; ++row)
                unsoften(scores + row * kKeys, dp + row * kKeys,
                         seen(head, query + row, key, columns), columns, head,
                         grads.logsumexp[query + row], delta[query + row]);
            product<T>({grads.dv + key * dim, dim}, {scores, 1, kKeys}, {d_out, stride},
                       {columns, dim, rows}, true);
            product<T>({grads.dk + key * dim, dim}, {dp, 1, kKeys}, {q, dim}, {columns, dim, rows},
                       true);
            product<T>({grads.dq + query * dim, dim}, {dp, kKeys, 1}, {head.k + key * dim, dim},
                       {rows, dim, columns}, true);
        }
    }
}

}  // namespace
}  // namespace roll::simd
