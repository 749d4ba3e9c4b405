// The memory of packed base weights (QLoRA). Pure.
#pragma once

#include <cstdint>

#include "common/spec/train/model.hpp"

namespace roll::plan {

// Returns the bytes that packing the base weights saves in one layer of a LoRA job; 0 if they are
// not packed. `element`: bytes of an element of an unpacked weight.
std::int64_t layer_saving(const spec::ModelConfig& m, std::int64_t element);

// Returns the number of elements of the largest packed matrix, which is unpacked for its product; 0
// if no matrix is packed.
std::int64_t largest_unpacked(const spec::ModelConfig& m);

}  // namespace roll::plan
