// Multiplies bfloat16 matrices in float, on processors that multiply pairs of bfloat16 numbers
// (AVX-512 BF16). Unlike oneDNN, it can store sums as float32 and add them to the values in the
// output.
#pragma once

#include <ATen/core/Tensor.h>

namespace roll::ops {

// Computes out_MN = a_MK @ b_KN + beta * out_MN for beta 0 or 1, rounded once; `out` is bfloat16 or
// float32. Returns false, and computes nothing, if the processor or the shapes are not suitable.
bool pair_matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN,
                 double beta);

}  // namespace roll::ops
