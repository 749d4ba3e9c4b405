// Large tensors whose pages are allocated only when they are first used.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace roll::train {

enum class Pages { Huge, Small };

// Returns a tensor of `size` zeros. On a CPU, the kernel allocates each page at its first touch, as
// a huge page if possible. Therefore, no page is cleared twice, and the cost is shared by the
// threads that first write to the tensor. If only few and scattered parts of the tensor are used,
// Pages::Small saves memory, because a huge page has 2 MiB.
at::Tensor lazy_zeros(std::int64_t size, const at::TensorOptions& options,
                      Pages pages = Pages::Huge);

}  // namespace roll::train
