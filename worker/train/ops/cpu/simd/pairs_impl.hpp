// The kernels of pair_kernels.hpp. Included only by kernels_avx512_bf16.cpp and under
// kernels_impl.hpp's rules.
#pragma once

#include <cstdint>

#include "worker/train/ops/cpu/simd/operands_impl.hpp"
#include "worker/train/ops/cpu/simd/pair_kernels.hpp"

#ifdef __AVX512BF16__
namespace roll::simd {
namespace {

constexpr std::int64_t kPanel = PairKernels::kColumns;
constexpr int kPanelVectors = kPanel / 16;

// Packs 16 rows at a time into two blocks of kRows rows. Sets missing rows to 0.
void pack_left(void* blocks, const c10::BFloat16* from, std::int64_t stride, std::int64_t rows,
               std::int64_t inner) {
    static_assert(PairKernels::kRows == 8);
    const std::int64_t block = inner / 2 * PairKernels::kRows;
    const auto store = [](Pair* to, __m256i pairs) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), pairs);
    };
    for (std::int64_t k = 0; k < inner; k += 2, from += 2 * stride) {
        Pair* out = static_cast<Pair*>(blocks) + k / 2 * PairKernels::kRows;
        for (std::int64_t row = 0; row < rows; row += 16, out += 2 * block) {
            const __mmask16 mask = first_lanes(rows - row);
            const __m512i pairs =
                paired(halves(from + row, mask), halves(from + stride + row, mask));
            store(out, _mm512_castsi512_si256(pairs));
            if (rows - row > 8) store(out + block, _mm512_extracti64x4_epi64(pairs, 1));
        }
    }
}

void pack_right(void* panel, const c10::BFloat16* from, std::int64_t stride, bool turned,
                std::int64_t columns, std::int64_t inner) {
    auto* out = static_cast<Pair*>(panel);
    const Rows<const c10::BFloat16> rows{from, stride};
    if (turned) return transpose_block(Rows<Pair>{out, kPanel}, rows, columns, inner);
    for (std::int64_t k = 0; k < inner; k += 2)
        pairs_across(rows.from(k), out + k / 2 * kPanel, 2, columns);
}

template <class X>
void product_to(const PairProduct& p) {
    const Rows<X> out{static_cast<X*>(p.out), p.out_stride};
    const Elements<Pair> left{static_cast<const Pair*>(p.left), p.row_stride, p.column_stride};
    const Rows<const Pair> panel{static_cast<const Pair*>(p.panel), kPanel};
    const Sizes sizes{p.rows, p.columns, p.inner / 2};
    if (p.columns == kPanel)
        return tile_column<X, Pair, PairKernels::kRows, kPanelVectors>(out, left, panel, sizes, 16,
                                                                       p.add);
    for (std::int64_t i = 0; i < p.columns; i += 16)
        tile_column<X, Pair, PairKernels::kRows, 1>(
            {out.data + i, out.stride}, left, {panel.data + i, kPanel}, sizes,
            static_cast<int>(p.columns - i < 16 ? p.columns - i : 16), p.add);
}

void pair_product(const PairProduct& p) {
    p.out_is_float ? product_to<float>(p) : product_to<c10::BFloat16>(p);
}

constexpr PairKernels kPairTable{&pack_left, &pack_right, &pair_product};

}  // namespace
}  // namespace roll::simd
#endif
