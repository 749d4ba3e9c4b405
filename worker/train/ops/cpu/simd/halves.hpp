// Splits a float32 number losslessly into two 16-bit halves. The first half is the nearest bfloat16
// (a tie goes to the larger magnitude). The second half is an integer; the bits of the float32
// number are the bits of the first half, shifted left by 16, plus this integer.
#pragma once

#include <bit>
#include <cstdint>

#include <c10/util/BFloat16.h>

namespace roll::simd {
// Each file that includes this header has its own copy of these functions, compiled with the file's
// processor flags (kernels_impl.hpp)
namespace {

inline c10::BFloat16 nearest(float number) {
    const auto bits = std::bit_cast<std::uint32_t>(number) + 0x8000U;
    return {static_cast<std::uint16_t>(bits >> 16U), c10::BFloat16::from_bits()};
}

inline std::int16_t rest_of(float number) {
    return static_cast<std::int16_t>(std::bit_cast<std::uint32_t>(number));
}

inline float join(c10::BFloat16 nearest, std::int16_t rest) {
    const auto added = static_cast<std::uint32_t>(std::int32_t{rest});
    return std::bit_cast<float>((std::uint32_t{nearest.x} << 16U) + added);
}

}  // namespace
}  // namespace roll::simd
