// Weights of bitsandbytes: 4-bit codes (NF4) with a scale for each block of consecutive elements of
// the whole tensor, or 8-bit codes with a scale for each row. A weight is computed in fp32.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "worker/convert/checkpoint/delta.hpp"

namespace roll::convert {

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

}  // namespace roll::convert
