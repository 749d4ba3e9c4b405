#include "worker/train/ops/cpu/simd/kernels_impl.hpp"
#include "worker/train/ops/cpu/simd/width.hpp"

namespace roll::simd {

constinit const Width kWidthAvx512Bf16{"avx512_bf16", &kTable<float>, &kTable<double>,
                                       &kTable<c10::BFloat16>, &kTable<c10::Half>};

}  // namespace roll::simd
