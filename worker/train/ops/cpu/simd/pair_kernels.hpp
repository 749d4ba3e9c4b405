// The parts of a product of bfloat16 matrices, for processors that multiply pairs of bfloat16
// numbers and add in float. The kernels take only pointers and sizes, as in kernels.hpp. A pair is
// two numbers that follow each other in a sum; `inner`, the number of products in a sum, is even.
#pragma once

#include <cstdint>

#include <c10/util/BFloat16.h>

namespace roll::simd {

// Arguments of a product: out = left @ panel, added to what `out` holds if `add`.
struct PairProduct {
    void* out;  // float or bfloat16
    std::int64_t out_stride;
    bool out_is_float, add;
    // pairs of the left side; number k of row r is at r * row_stride + k / 2 * column_stride
    const void* left;
    std::int64_t row_stride, column_stride;
    const void* panel;
    std::int64_t rows, columns, inner;
};

struct PairKernels {
    // size of the block of sums that the registers hold
    static constexpr std::int64_t kRows = 8, kColumns = 48;
    static constexpr std::int64_t kPairBytes = 4;

    // Packs the left side into blocks of kRows rows, pairs [rows / kRows][inner / 2][kRows]. `from`
    // holds numbers [inner][rows]; `stride` is the distance between numbers that are adjacent in
    // `inner`.
    void (*pack_left)(void* blocks, const c10::BFloat16* from, std::int64_t stride,
                      std::int64_t rows, std::int64_t inner);

    // Packs a panel of at most kColumns columns, pairs [inner / 2][kColumns]. `from` holds numbers
    // [inner][columns] or, if `turned`, [columns][inner].
    void (*pack_right)(void* panel, const c10::BFloat16* from, std::int64_t stride, bool turned,
                       std::int64_t columns, std::int64_t inner);

    // Computes a product with at most kColumns columns. If the left side is packed, it has at most
    // kRows rows.
    void (*product)(const PairProduct& product);
};

}  // namespace roll::simd
