#include "worker/train/ops/cpu/simd/width.hpp"

#include "common/processor.hpp"

namespace roll::simd {
namespace {

const Width& best_width() {
    switch (processor().vectors) {
        case Processor::Vectors::Default: return kWidthDefault;
        case Processor::Vectors::Avx2: return kWidthAvx2;
        case Processor::Vectors::Avx512: return kWidthAvx512;
        case Processor::Vectors::Avx512Bf16:
        case Processor::Vectors::Amx: break;
    }
    return kWidthAvx512Bf16;
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
template <>
const Kernels<c10::Half>& kernels<c10::Half>() {
    return *best_width().of_half;
}

const char* kernel_width() { return best_width().name; }

}  // namespace roll::simd
