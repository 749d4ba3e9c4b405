// The packed weights of QLoRA's frozen base (common/spec/train/packed_form.hpp).
#pragma once

#include <cstdint>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Returns the weight of parameter `i` in the type of the computation. For a packed weight, the
// result is a new tensor with the unpacked values. Otherwise, the result is Parameters::weight[i].
at::Tensor weight_of(const Parameters& parameters, std::size_t i);

// Returns the number of elements of one row of the parameter in Parameters::weight. For a packed
// row, this is the number of its bytes divided by `element_bytes`, the size of an element of
// flat_weight.
std::int64_t row_elements(const ParameterSpec& spec, std::int64_t element_bytes);

}  // namespace roll::train
