// Large tensors whose memory is allocated only when it is used.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace roll::train {

// Returns `size` zeros. On a CPU the kernel allocates each page at its first touch, as a huge page
// if possible. So no page is cleared twice, and the threads that first write it share the cost.
at::Tensor lazy_zeros(std::int64_t size, const at::TensorOptions& options);

// Allocates all pages of a lazy_zeros tensor, with each thread allocating a part; for a tensor that
// will be written completely. If huge pages are slow, because a virtual machine's host must find
// the memory first, the rest uses small pages, which the machine mostly has in use already.
void make_pages(const at::Tensor& flat);

}  // namespace roll::train
