// The packed weights of QLoRA's frozen base (common/spec/train/packed_form.hpp).
#pragma once

#include <cstdint>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Returns the weight of parameter `i` in the type of the computation. For a packed weight, this is
// a new tensor with the unpacked values; otherwise, it is `weight`.
at::Tensor weight_of(const Parameters& parameters, std::size_t i);

// Returns weight_of() for a matrix product. A packed weight is unpacked in `unpacked_room`, unless
// the result of an earlier call is still there. Otherwise, the tensors that layers save would lie
// between unpacked weights, and the gaps would take memory. Only for one thread.
at::Tensor weight_for_product(const Parameters& parameters, std::size_t i);

// Returns memory for the largest packed weight in the type of the computation; undefined if no
// weight is packed.
at::Tensor unpacked_room(const Parameters& parameters);

// Returns the number of elements that a row of the parameter takes in `weight`. A packed row counts
// in elements of `element_bytes` bytes, the size of the elements of flat_weight.
std::int64_t row_elements(const ParameterSpec& spec, std::int64_t element_bytes);

}  // namespace roll::train
