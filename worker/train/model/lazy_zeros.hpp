// Large tensors whose pages are allocated only when they are first used.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace roll::train {

// Returns a tensor of `size` zeros. On a CPU the kernel allocates each page at its first touch, as
// a huge page if possible. So no page is cleared twice, and the threads that first write the tensor
// share the cost.
at::Tensor lazy_zeros(std::int64_t size, const at::TensorOptions& options);

// Allocates all pages of a lazy_zeros() tensor that will be written completely; each thread
// allocates a part. Huge pages are slow if a virtual machine's host must find the memory first. If
// that is so, the remaining pages are small ones, for which the host has mostly found the memory
// already.
void make_pages(const at::Tensor& flat);

}  // namespace roll::train
