// Products of small matrices that are in the cache, accumulated in registers. Only
// operands_impl.hpp includes this file. The rules of kernels_impl.hpp apply.
#pragma once

#include <cstdint>

#include "worker/train/ops/cpu/simd/factors_impl.hpp"

namespace roll::simd {
namespace {

struct Sizes {
    std::int64_t rows, columns, inner;
};

// Number of rows of a tile. The sums of a tile take 16 of the 32 registers of AVX-512, and 8 of the
// 16 registers of other vector widths.
constexpr int kTileRows = 4;
template <class T>
constexpr int kTileVectors = Vec<T>::size() * sizeof(T) == 64 ? 4 : 2;

// Computes one tile of R rows and V vectors per row, and stores the results as type X. If V is 1,
// the vector may be partial, with `size` elements.
template <class X, class E, int R, int V>
inline __attribute__((always_inline)) void tile(Rows<X> c, Elements<E> a, Rows<const E> b,
                                                std::int64_t inner, int size, bool add) {
    using T = Wide<X>;
    constexpr int kWidth = Vec<T>::size();
    if constexpr (V > 1) size = kWidth;
    Vec<T> sum[R][V];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v)
            sum[r][v] = add ? get(c.data + r * c.stride + v * kWidth, size) : Vec<T>(0);
    for (std::int64_t k = 0; k < inner; ++k) {
        decltype(lanes(b.data, size)) right[V];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) right[v] = lanes(b.data + k * b.stride + v * kWidth, size);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const auto left = in_all_lanes(a.data[k * a.column_stride + r * a.row_stride]);
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) sum[r][v] = multiply_add(left, right[v], sum[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) put(c.data + r * c.stride + v * kWidth, sum[r][v], size);
}

template <class X, class E, int R, int V>
void tile_column(Rows<X> c, Elements<E> a, Rows<const E> b, Sizes sizes, int size, bool add) {
    std::int64_t row = 0;
    const auto next = [&](std::int64_t rows) {
        row += rows;
        c.data += rows * c.stride;
        a.data += rows * a.row_stride;
    };
    for (; row + R <= sizes.rows; next(R)) tile<X, E, R, V>(c, a, b, sizes.inner, size, add);
    for (; row < sizes.rows; next(1)) tile<X, E, 1, V>(c, a, b, sizes.inner, size, add);
}

// Computes c = a @ b. If `add`, adds a @ b to c. Sizes::inner is the number of columns of a and of
// rows of b.
template <class T, class E>
void product(Rows<T> c, Elements<E> a, Rows<const E> b, Sizes sizes, bool add) {
    constexpr int kWidth = Vec<T>::size(), kVectors = kTileVectors<T>;
    constexpr std::int64_t kWide = kVectors * kWidth;
    std::int64_t left = sizes.columns;
    for (; left >= kWide; left -= kWide, c.data += kWide, b.data += kWide)
        tile_column<T, E, kTileRows, kVectors>(c, a, b, sizes, kWidth, add);
    for (; left > 0; left -= kWidth, c.data += kWidth, b.data += kWidth)
        tile_column<T, E, kTileRows, 1>(c, a, b, sizes,
                                        static_cast<int>(left < kWidth ? left : kWidth), add);
}

}  // namespace
}  // namespace roll::simd
