// Hashes tensors, so that copies can be compared without being kept.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace roll::train {

// Returns a hash of the bytes of a contiguous CPU tensor.
std::int64_t hash_of(const at::Tensor& tensor);

}  // namespace roll::train
