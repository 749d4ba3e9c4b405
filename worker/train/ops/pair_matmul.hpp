// Products of bfloat16 matrices in float, for processors that multiply pairs of them (AVX-512
// BF16). Beside oneDNN's the sum may go to float32 itself, and starts from what is there.
#pragma once

#include <ATen/core/Tensor.h>

namespace roll::ops {

// out_MN = a_MK @ b_KN + beta * out_MN for beta 0 or 1, rounded once; out is bfloat16 or float32.
// False, and nothing is done, where the processor or the shapes are not for it.
bool pair_matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN,
                 double beta);

}  // namespace roll::ops
