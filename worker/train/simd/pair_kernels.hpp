// The parts of a product of bfloat16 matrices, for processors that multiply pairs of bfloat16
// numbers and add in float. They take only pointers and sizes, as in kernels.hpp. A pair is two
// numbers that follow each other in a sum; the number of numbers in a sum, `inner`, is even.
#pragma once

#include <cstdint>

#include <c10/util/BFloat16.h>

namespace roll::simd {

// Arguments of a product: out = left @ panel, added to what `out` holds if `add`.
struct PairProduct {
    void* out;  // float or bfloat16
    std::int64_t out_stride;
    bool out_is_float, add;
    const void* left;  // pairs; number k of row r is at r * row_stride + k / 2 * column_stride
    std::int64_t row_stride, column_stride;
    const void* panel;
    std::int64_t rows, columns, inner;
};

struct PairKernels {
    static constexpr std::int64_t kRows = 8, kColumns = 48;  // block of sums that registers hold
    static constexpr std::int64_t kPairBytes = 4;

    // Packs the left side into blocks of kRows rows, pairs [rows / kRows][inner / 2][kRows]. It
    // reads numbers [inner][rows]; `stride` is the distance between two of them in `inner`.
    void (*pack_left)(void* blocks, const c10::BFloat16* from, std::int64_t stride,
                      std::int64_t rows, std::int64_t inner);

    // Packs a panel of at most kColumns columns, pairs [inner / 2][kColumns]. It reads numbers
    // [inner][columns] or, if `turned`, [columns][inner].
    void (*pack_right)(void* panel, const c10::BFloat16* from, std::int64_t stride, bool turned,
                       std::int64_t columns, std::int64_t inner);

    // Computes a product of at most kColumns columns and, if the left side is packed, at most kRows
    // rows.
    void (*product)(const PairProduct& product);
};

// Returns null if the processor lacks the instruction, or if it has tiles (AMX), with which oneDNN
// multiplies faster.
const PairKernels* pair_kernels();

}  // namespace roll::simd
