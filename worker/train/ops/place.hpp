// Lets a caller provide the memory of an operator's result.
#pragma once

#include <functional>

#include <ATen/ATen.h>

namespace roll::ops {

// Makes the tensor for a result. If empty, new memory is allocated.
using Place = std::function<at::Tensor(at::IntArrayRef sizes, const at::TensorOptions& options)>;

inline at::Tensor made_in(const Place& place, at::IntArrayRef sizes,
                          const at::TensorOptions& options) {
    return place ? place(sizes, options) : at::empty(sizes, options);
}

}  // namespace roll::ops
