// Multiplies float32, bfloat16 and float16 matrices, block by block through oneDNN
// (at::native::cpublas). If oneDNN does not support the processor, LibTorch multiplies the blocks
// with its BLAS.
#pragma once

#include <ATen/core/Tensor.h>

namespace roll::ops {

// Computes out_MN = a_MK @ b_KN + beta * out_MN on the CPU. `beta` must be 0 or 1. Each matrix is
// float32, bfloat16 or float16. Numbers are widened to float32 in blocks, sums are float32, and a
// narrow `out` is rounded once. The terms of an element's sum are added in an order that does not
// depend on the number of threads.
void panel_matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN,
                  double beta);

}  // namespace roll::ops
