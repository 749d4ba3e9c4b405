// Sums over the elements of a gradient. Results do not depend on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

namespace roll::train {

// Returns the sum of squares of a contiguous tensor, as a 0-dim double tensor on the CPU.
at::Tensor square_sum(const at::Tensor& values);

// Returns the number of elements that are 0, as a 0-dim tensor on the CPU.
at::Tensor zero_count(const at::Tensor& values);

}  // namespace roll::train
