// Random values for the tests of the operators.
#pragma once

#include <ATen/ATen.h>

namespace roll::ops {

inline at::Tensor random(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

}  // namespace roll::ops
