#include "worker/train/ops/cpu/simd/kernels_impl.hpp"
#include "worker/train/ops/cpu/simd/width.hpp"

namespace roll::simd {

constinit const Width kWidthAvx2{"avx2", &kTable<float>, &kTable<double>, &kTable<c10::BFloat16>,
                                 &kTable<c10::Half>};

}  // namespace roll::simd
