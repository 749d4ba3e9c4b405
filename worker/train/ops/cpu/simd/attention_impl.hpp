// Attention of one head. Computes the scores of one block of queries and one block of keys at a
// time, so that the scores stay in the L1 cache. The blocks are in the order of FlashAttention (Dao
// et al., 2022). Only attention_backward_impl.hpp includes this file. The rules of kernels_impl.hpp
// apply.
#pragma once

#include <cstdint>

#include "worker/train/ops/cpu/simd/operands_impl.hpp"
#include "worker/train/ops/cpu/simd/scores_impl.hpp"

namespace roll::simd {
namespace {

// Number of queries and number of keys in a block; AttentionHead::scratch uses both
constexpr std::int64_t kQueries = 32, kKeys = 64;

template <class S>
std::int64_t first_block(const AttentionHead<S>& head, std::int64_t query) {
    return head.first == nullptr ? 0 : head.first[query] / kKeys * kKeys;
}

// Computes attention of one head. S is the type in which numbers are stored. E is the type of the
// factors of matrix products (factors_impl.hpp).
template <class S, class E>
void attention_by(const AttentionHead<S>& head, S* out, Wide<S>* logsumexp, std::int64_t stride,
                  Wide<S>* scratch) {
    using T = Wide<S>;
    const std::int64_t dim = head.dim, inner = factors<E>(dim);
    T *const scores = scratch, *const gathered = scores + kQueries * kKeys;
    // The keys as [block][dim][kKeys]: each block of kKeys keys is transposed
    E* const keys = reinterpret_cast<E*>(gathered + kQueries * dim);
    E* const weights = keys + (head.keys + kKeys) * inner;
    E* const room = weights + kQueries * kKeys / kNumbers<E>;
    const auto queries = along(Rows<const S>{head.q, dim}, room, head.queries, dim);
    const auto values = across(Rows<const S>{head.v, dim}, room + head.keys * dim, head.keys, dim);
    for (std::int64_t key = 0; key < head.keys; key += kKeys)
        transpose_block(Rows<E>{keys + key * inner, kKeys}, Rows<const S>{head.k + key * dim, dim},
                        head.keys - key < kKeys ? head.keys - key : kKeys, dim);
    T max[kQueries], sum[kQueries];
    for (std::int64_t query = 0; query < head.queries; query += kQueries) {
        const std::int64_t rows = head.queries - query < kQueries ? head.queries - query : kQueries;
        const std::int64_t end = query + rows + head.before();
        const Rows<const E> q = queries.from(query);
        fill(gathered, T{0}, rows * dim);
        fill(max, -std::numeric_limits<T>::infinity(), rows);
        fill(sum, T{0}, rows);
        for (std::int64_t key = first_block(head, query); key < end; key += kKeys) {
            const std::int64_t columns = end - key < kKeys ? end - key : kKeys;
            product<T, E>({scores, kKeys}, {q.data, q.stride, 1}, {keys + key * inner, kKeys},
                          {rows, columns, inner}, false);
            for (std::int64_t row = 0; row < rows; ++row)
                soften(scores + row * kKeys, seen(head, query + row, key, columns), columns, head,
                       max[row], sum[row], gathered + row * dim);
            product<T, E>({gathered, dim},
                          over_columns(Rows<const T>{scores, kKeys}, weights, rows, columns),
                          values.from(key / kNumbers<E>), {rows, dim, factors<E>(columns)}, true);
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

// Computes attention. If the processor multiplies bfloat16, each factor is a pair of bfloat16
// numbers. Pairs need an even head dimension. Every model with RoPE has one.
template <class S>
void attention(const AttentionHead<S>& head, S* out, Wide<S>* logsumexp, std::int64_t stride,
               Wide<S>* scratch) {
    if (head.dim % kNumbers<Factor<S>> == 0)
        attention_by<S, Factor<S>>(head, out, logsumexp, stride, scratch);
    else
        attention_by<S, Wide<S>>(head, out, logsumexp, stride, scratch);
}

}  // namespace
}  // namespace roll::simd
