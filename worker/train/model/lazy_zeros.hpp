// Large tensors that cost nothing until they are used.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace roll::train {

// `size` zeros. On a CPU the kernel makes each page when it is first touched: nothing is cleared
// twice, and who touches it first (all threads, side by side) pays for it.
at::Tensor lazy_zeros(std::int64_t size, const at::TensorOptions& options);

// From now on the kernel may join the pages of such a tensor to huge ones (2 MiB), in its own time.
// Whoever asks before the pages are touched waits for whole free ones, which a virtual machine's
// host has taken back and gives slowly, where small ones are at hand (2 GiB: 3.4 s and 0.8 s).
void ask_for_huge_pages(const at::Tensor& tensor);

}  // namespace roll::train
