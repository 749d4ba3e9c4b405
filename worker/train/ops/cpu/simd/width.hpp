// The kernels of each compiled vector width. kernels() chooses the width for the processor.
#pragma once

#include "worker/train/ops/cpu/simd/kernels.hpp"

namespace roll::simd {

struct Width {
    const char* name;
    const Kernels<float>* of_float;
    const Kernels<double>* of_double;
    const Kernels<c10::BFloat16>* of_bfloat16;
    const Kernels<c10::Half>* of_half;
};

extern const Width kWidthDefault;
extern const Width kWidthAvx2;
extern const Width kWidthAvx512;
extern const Width kWidthAvx512Bf16;  // AVX-512 with instructions that multiply bfloat16

// Returns the kernels for the widest vectors that this processor supports. S is float, double,
// c10::BFloat16 or c10::Half.
template <class S>
const Kernels<S>& kernels();

// Returns the name of the vector width that kernels() uses: "avx512_bf16", "avx512", "avx2" or
// "default".
const char* kernel_width();

}  // namespace roll::simd
