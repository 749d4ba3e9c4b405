// 8-bit weights with one scale per block, as DeepSeek publishes them. The scales of tensor NAME
// are in the tensor NAME_scale_inv. A weight is the 8-bit value times the scale, computed in
// fp32.
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

// Multiplies each of `values` by the scale of its block. `values` has the elements of `box`.
void apply(const BlockScale& scale, const ChangedBox& box, float* values);

// Returns the name of the tensor whose scales are in tensor `name`. Returns an empty string if
// `name` holds no scales.
std::string scaled_by(const std::string& name);

}  // namespace roll::convert
