// The parts of a product of bfloat16 matrices, for processors that multiply pairs of them and add
// in float. As in kernels.hpp: pointers and sizes only. A pair is two numbers that follow each
// other in a sum, of whose numbers there is an even count, `inner`.
#pragma once

#include <cstdint>

#include <c10/util/BFloat16.h>

namespace roll::simd {

// out = left @ panel, added to what `out` holds if `add`.
struct PairProduct {
    void* out;  // float or bfloat16
    std::int64_t out_stride;
    bool out_is_float, add;
    const void* left;  // pairs: of row r and number k at r * row_stride + k / 2 * column_stride
    std::int64_t row_stride, column_stride;
    const void* panel;
    std::int64_t rows, columns, inner;
};

struct PairKernels {
    static constexpr std::int64_t kRows = 8, kColumns = 48;  // of what registers hold
    static constexpr std::int64_t kPairBytes = 4;

    // Numbers [inner][rows], of which each begins `stride` after the other, as blocks of kRows
    // rows: pairs [rows / kRows][inner / 2][kRows].
    void (*pack_left)(void* blocks, const c10::BFloat16* from, std::int64_t stride,
                      std::int64_t rows, std::int64_t inner);

    // A panel of at most kColumns columns, pairs [inner / 2][kColumns], from numbers
    // [inner][columns] or, `turned`, [columns][inner].
    void (*pack_right)(void* panel, const c10::BFloat16* from, std::int64_t stride, bool turned,
                       std::int64_t columns, std::int64_t inner);

    // Of at most kColumns columns; where the left side is packed, of at most kRows rows.
    void (*product)(const PairProduct& product);
};

// Null where the processor has no such instruction, or tiles (AMX), which oneDNN multiplies faster.
const PairKernels* pair_kernels();

}  // namespace roll::simd
