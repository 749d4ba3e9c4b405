// 8-bit weights with one scale per block, as DeepSeek publishes them: the scales of tensor NAME are
// in NAME_scale_inv. The weight is the product of 8-bit value and scale, in fp32.
#pragma once

#include <cstdint>
#include <string>

#include "common/tensor/view.hpp"
#include "worker/convert/checkpoint/delta.hpp"

namespace roll::convert {

struct BlockScale {
    // one scale per block: [rows / block_rows, columns / block_columns], rounded up
    tensor::StridedView scales;
    std::int64_t block_rows = 128;
    std::int64_t block_columns = 128;
};

// Multiplies each element of the box by the scale of its block, in place.
void apply(const BlockScale& scale, const ChangedBox& box, float* values);

// Returns the name of the tensor whose scales are in tensor `name`; empty if `name` holds no
// scales.
std::string scaled_by(const std::string& name);

}  // namespace roll::convert
