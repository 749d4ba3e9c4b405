// Large tensors whose pages are allocated only when they are first used.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace roll::train {

// Returns a tensor of `size` zeros. On a CPU, the kernel allocates each page at its first touch, as
// a huge page if possible. So no page is cleared twice, and the threads that first write the tensor
// share the cost.
at::Tensor lazy_zeros(std::int64_t size, const at::TensorOptions& options);

}  // namespace roll::train
