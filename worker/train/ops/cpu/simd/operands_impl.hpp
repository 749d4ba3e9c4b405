// Converts matrices to the layouts of product()'s operands. product() reads the elements of its
// left operand one by one, and the elements of its right operand as vectors along a row. The
// elements are factors (factors_impl.hpp). A function copies a matrix to `room` unless the matrix
// already has the layout. Only attention_impl.hpp includes this file. The rules of kernels_impl.hpp
// apply.
#pragma once

#include <cstdint>

#include "worker/train/ops/cpu/simd/product_impl.hpp"

namespace roll::simd {
namespace {

#ifdef __AVX512BF16__

inline __attribute__((always_inline)) __m512i paired(__m256i even, __m256i odd) {
    return _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

// Returns pairs of vertically adjacent numbers, [rows / 2][columns]. Pads an odd last row with 0.
template <class X>
Rows<const Pair> pairs_across(Rows<const X> rows, Pair* room, std::int64_t count,
                              std::int64_t columns) {
    for (std::int64_t row = 0; row < count; row += 2) {
        const X *const even = rows.from(row).data, *const odd = even + rows.stride;
        for (std::int64_t i = 0; i < columns; i += 16) {
            const __mmask16 mask = first_lanes(columns - i);
            const __m256i last = halves(odd + i, row + 1 < count ? mask : __mmask16{0});
            _mm512_mask_storeu_epi32(room + row / 2 * columns + i, mask,
                                     paired(halves(even + i, mask), last));
        }
    }
    return {room, columns};
}

// Returns pairs of horizontally adjacent numbers. Pads an odd last column with 0.
inline Rows<const Pair> pairs_along(Rows<const float> rows, Pair* room, std::int64_t count,
                                    std::int64_t columns) {
    const std::int64_t stride = (columns + 15) / 16 * 8;
    for (std::int64_t row = 0; row < count; ++row)
        for (std::int64_t i = 0; i < columns; i += 16)
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(room + row * stride + i / 2),
                                halves(rows.from(row).data + i, first_lanes(columns - i)));
    return {room, stride};
}

#endif

// Returns `rows` as a matrix of factors, without a copy, for a product that sums over the columns.
// If a factor is a pair of numbers, these are in adjacent columns, so the number of columns must be
// even.
template <class E, class S>
auto packed(Rows<const S> rows) {
    if constexpr (kNumbers<E> == 1)
        return rows;
    else
        return Rows<const E>{reinterpret_cast<const E*>(rows.data), rows.stride / 2};
}

// Returns `rows` as the left operand of a product that sums over the columns of `rows`. If factors
// are pairs, the number of columns must be even.
template <class E, class S>
Rows<const E> along(Rows<const S> rows, E* room, std::int64_t count, std::int64_t columns) {
    if constexpr (kNumbers<E> == 2 || std::is_same_v<E, S>) {
        return packed<E>(rows);
    } else {
        for (std::int64_t row = 0; row < count; ++row)
            widened(rows.from(row).data, room + row * columns, columns);
        return {room, columns};
    }
}

// Returns `rows` as the right operand of a product that sums over the rows of `rows`.
template <class E, class S>
Rows<const E> across(Rows<const S> rows, E* room, std::int64_t count, std::int64_t columns) {
    if constexpr (kNumbers<E> == 2)
        return pairs_across(rows, room, count, columns);
    else
        return along(rows, room, count, columns);
}

// These functions return a block of computed numbers as the left operand of a product. The product
// sums over the block's columns (over_columns) or over its rows (over_rows).
template <class E, class T>
Elements<E> over_columns(Rows<const T> block, E* room, std::int64_t rows, std::int64_t columns) {
    if constexpr (kNumbers<E> == 1)
        return {block.data, block.stride, 1};
    else {
        const Rows<const E> pairs = pairs_along(block, room, rows, columns);
        return {pairs.data, pairs.stride, 1};
    }
}
template <class E, class T>
Elements<E> over_rows(Rows<const T> block, E* room, std::int64_t rows, std::int64_t columns) {
    const Rows<const E> lying = across(block, room, rows, columns);
    return {lying.data, 1, lying.stride};
}

// Sets out[i][j] = rows[j][i] for a block of rows. Pads missing columns of `out` with 0.
template <class E, class S>
void transpose_block(Rows<E> out, Rows<const S> rows, std::int64_t count, std::int64_t columns) {
    const auto from = packed<E>(rows);
    for (std::int64_t i = 0; i < factors<E>(columns); ++i) {
        for (std::int64_t j = 0; j < count; ++j)
            out.from(i).data[j] = static_cast<E>(from.data[j * from.stride + i]);
        fill(out.from(i).data + count, E{}, out.stride - count);
    }
}

}  // namespace
}  // namespace roll::simd
