// The kernels of one vector width, and the widths that are compiled; simd/kernels.cpp chooses one
// of them.
#pragma once

#include "worker/train/ops/cpu/simd/kernels.hpp"
#include "worker/train/ops/cpu/simd/pair_kernels.hpp"

namespace roll::simd {

struct Width {
    const char* name;
    const Kernels<float>* of_float;
    const Kernels<double>* of_double;
    const Kernels<c10::BFloat16>* of_bfloat16;
    const PairKernels* of_pairs = nullptr;
};

extern const Width kWidthDefault;
extern const Width kWidthAvx2;
extern const Width kWidthAvx512;
extern const Width kWidthAvx512Bf16;  // AVX-512 with the instructions that multiply bfloat16

}  // namespace roll::simd
