#include "worker/train/simd/kernels.hpp"

#include <cpuid.h>

#include "worker/train/simd/width.hpp"

namespace roll::simd {
namespace {

const Width& best_width() {
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (avx2 && avx512 && __builtin_cpu_supports("avx512bf16")) return kWidthAvx512Bf16;
    if (avx2 && avx512) return kWidthAvx512;
    return avx2 ? kWidthAvx2 : kWidthDefault;
}

}  // namespace

template <>
const Kernels<float>& kernels<float>() {
    return *best_width().of_float;
}
template <>
const Kernels<double>& kernels<double>() {
    return *best_width().of_double;
}
template <>
const Kernels<c10::BFloat16>& kernels<c10::BFloat16>() {
    return *best_width().of_bfloat16;
}

const PairKernels* pair_kernels() {
    static const bool tiles = [] {
        unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
        return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & bit_AMX_BF16) != 0;
    }();
    return tiles ? nullptr : best_width().of_pairs;
}

const char* kernel_width() { return best_width().name; }

}  // namespace roll::simd
