// Large tensors that cost nothing until they are used.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace roll::train {

// `size` zeros. On a CPU the kernel makes each page when it is first touched, in huge pages where
// it can: nothing is cleared twice, and who touches it first (all threads, side by side) pays for
// it.
at::Tensor lazy_zeros(std::int64_t size, const at::TensorOptions& options);

}  // namespace roll::train
