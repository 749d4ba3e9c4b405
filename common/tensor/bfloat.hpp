// Conversion between bfloat16 bits and float.
#pragma once

#include <bit>
#include <cstdint>

namespace roll::tensor {

inline float bfloat_to_float(std::uint16_t b) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16U);
}

// Rounds to nearest even. A NaN becomes the quiet NaN 0x7FC0.
inline std::uint16_t float_to_bfloat(float f) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FC0U;
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

}  // namespace roll::tensor
