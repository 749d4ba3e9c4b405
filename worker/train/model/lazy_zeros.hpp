// Large tensors that cost nothing until they are used.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace roll::train {

// `size` zeros. On a CPU the kernel makes each page when it is first touched, in huge pages where
// it can: nothing is cleared twice, and who touches it first (all threads, side by side) pays for
// it.
at::Tensor lazy_zeros(std::int64_t size, const at::TensorOptions& options);

// Has all threads make the pages of one of them that will be written whole, each its own part.
// Where a huge page comes slowly, because a virtual machine's host has to find its memory first,
// the others are made of small ones: those the machine mostly has used before, and has at hand.
void make_pages(const at::Tensor& flat);

}  // namespace roll::train
