// The memory of packed base weights (QLoRA). Pure.
#pragma once

#include <cstdint>

#include "common/spec/train/model.hpp"

namespace roll::plan {

// Returns the bytes that packing saves in one layer of a LoRA job with a packed base.
std::int64_t layer_saving(const spec::ModelConfig& m, std::int64_t element);

// Returns the number of elements of the largest packed matrix; 0 if no matrix is packed. A product
// with a packed matrix unpacks the matrix first.
std::int64_t largest_unpacked(const spec::ModelConfig& m);

}  // namespace roll::plan
