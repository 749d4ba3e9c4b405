// Weights that are stored in 4 or 8 bits with scales. A weight is computed in fp32.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/tensor/view.hpp"
#include "worker/convert/checkpoint/delta.hpp"

namespace roll::convert {

// Weights of bitsandbytes: 4-bit codes (NF4) with a scale for each block of consecutive elements of
// the whole tensor, or 8-bit codes with a scale for each row.
struct BitsWeight {
    // codes of the elements; nf4: two codes per byte, the first in the high half
    const std::byte* codes = nullptr;
    std::int64_t columns = 0;
    std::int64_t block = 0;       // 4-bit codes: number of elements per scale; 8-bit codes: 0
    std::vector<float> scales;    // 4-bit codes: one scale per block; 8-bit codes: one per row
    std::array<float, 16> map{};  // values of the 4-bit codes
};

// Computes the elements of `box` and writes them to `to`, with the strides of `box`.
void decode(const BitsWeight& weight, const ChangedBox& box, float* to);

// 8-bit weights with one scale per block, as DeepSeek publishes them. The scales of tensor NAME
// are in the tensor NAME_scale_inv. A weight is the 8-bit value times the scale.
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
