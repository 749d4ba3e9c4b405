// Lets a caller provide the memory for an operator's result.
#pragma once

#include <functional>

#include <ATen/ATen.h>

namespace roll::ops {

// Makes the tensor for an operator's result. If the function is empty, the operator allocates new
// memory.
using Place = std::function<at::Tensor(at::IntArrayRef sizes, const at::TensorOptions& options)>;

inline at::Tensor made_in(const Place& place, at::IntArrayRef sizes,
                          const at::TensorOptions& options) {
    return place ? place(sizes, options) : at::empty(sizes, options);
}

}  // namespace roll::ops
