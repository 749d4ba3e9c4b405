// Multiplies float32 and bfloat16 matrices, block by block through oneDNN (at::native::cpublas). If
// oneDNN does not support the processor, LibTorch multiplies the blocks with its BLAS.
#pragma once

#include <ATen/core/Tensor.h>

namespace roll::ops {

// Computes out_MN = a_MK @ b_KN + beta * out_MN for beta 0 or 1 on the CPU; each matrix is float32
// or bfloat16. Numbers are widened to float32 in blocks, sums are float32, and a bfloat16 `out` is
// rounded once. The order in which the products of an element are summed does not depend on the
// number of threads.
void panel_matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN,
                  double beta);

}  // namespace roll::ops
