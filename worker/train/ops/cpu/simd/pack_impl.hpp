// Copies matrices into the layout that block products read. Only kernels_impl.hpp includes this
// file. The rules of kernels_impl.hpp apply.
#pragma once

#include <cstdint>

#include "worker/train/ops/cpu/simd/lanes_impl.hpp"

namespace roll::simd {
namespace {

// kSide is the number of rows and columns of a square block. turn_block() sets to[i][j] =
// from[j][i] for a block of at most kSide x kSide; `rows` is the number of rows of `to`.
constexpr std::int64_t kSide = 16;
template <class W>
inline __attribute__((always_inline)) void turn_block(W* to, std::int64_t to_stride, const W* from,
                                                      std::int64_t stride, std::int64_t rows,
                                                      std::int64_t columns) {
    if (rows == kSide && columns == kSide)
        return at::vec::transpose_mxn<W, kSide, kSide>(from, stride, to, to_stride);
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) to[i * to_stride + j] = from[j * stride + i];
}

template <class S>
void pack(Wide<S>* to, std::int64_t to_stride, const S* from, std::int64_t stride, bool turned,
          std::int64_t rows, std::int64_t columns) {
    using W = Wide<S>;
    if (!turned) {
        for (std::int64_t row = 0; row < rows; ++row)
            for_lanes<W>(columns, [&](std::int64_t i, std::int64_t n) {
                put(to + row * to_stride + i, get(from + row * stride + i, n), n);
            });
        return;
    }
    W room[kSide * kSide];
    for (std::int64_t row = 0; row < rows; row += kSide) {
        const std::int64_t height = rows - row < kSide ? rows - row : kSide;
        for (std::int64_t column = 0; column < columns; column += kSide) {
            const std::int64_t width = columns - column < kSide ? columns - column : kSide;
            const S* const block = from + column * stride + row;
            W* const out = to + row * to_stride + column;
            if constexpr (std::is_same_v<S, W>) {
                turn_block(out, to_stride, block, stride, height, width);
            } else {
                for (std::int64_t j = 0; j < width; ++j)
                    for_lanes<W>(height, [&](std::int64_t i, std::int64_t n) {
                        put(room + j * kSide + i, get(block + j * stride + i, n), n);
                    });
                turn_block<W>(out, to_stride, room, kSide, height, width);
            }
        }
    }
}

}  // namespace
}  // namespace roll::simd
