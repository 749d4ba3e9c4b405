#include "common/tensor/dtype.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace roll::tensor {
namespace {

template <class To, class From>
To cast_one(DType from_type, From from, DType to_type) {
    To to{};
    cast(from_type, std::as_bytes(std::span(&from, 1)), to_type,
         std::as_writable_bytes(std::span(&to, 1)));
    return to;
}

std::uint16_t half(float f) { return cast_one<std::uint16_t>(DType::F32, f, DType::F16); }
std::uint16_t bfloat(float f) { return cast_one<std::uint16_t>(DType::F32, f, DType::BF16); }

TEST(DType, NamesAreReadBack) {
    for (int i = 0; i < kDTypes; ++i) {
        const auto dtype = static_cast<DType>(i);
        EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
    }
    EXPECT_EQ(parse_dtype("F33"), std::nullopt);
}

TEST(DType, RoundsToNearestEven) {
    EXPECT_EQ(bfloat(1.0F), 0x3F80);
    EXPECT_EQ(bfloat(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // a tie, rounded down to even
    EXPECT_EQ(bfloat(std::bit_cast<float>(0x3F818000U)), 0x3F82);  // a tie, rounded up to even
    EXPECT_EQ(bfloat(std::numeric_limits<float>::max()), 0x7F80);
    EXPECT_EQ(half(65519.0F), 0x7BFF);
    EXPECT_EQ(half(65520.0F), 0x7C00);
    EXPECT_EQ(half(0x1p-24F), 0x0001);
    EXPECT_EQ(half(0x1p-25F), 0x0000);
    EXPECT_EQ(half(-0x1.8p-24F), 0x8002);
    EXPECT_EQ(half(-0.0F), 0x8000);
}

TEST(DType, KeepsNaN) {
    // Its payload would be 0 if the low bits were cut off.
    const float nan = std::bit_cast<float>(0x7F800001U);
    EXPECT_EQ(bfloat(nan), 0x7FC0);
    EXPECT_EQ(half(nan), 0x7E00);
}

TEST(DType, EveryHalfSurvivesTheWayThroughFp32) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const auto h = static_cast<std::uint16_t>(bits);
        const auto f = cast_one<float>(DType::F16, h, DType::F32);
        if (!std::isnan(f)) {
            EXPECT_EQ(half(f), h);
        }
        const auto b = cast_one<float>(DType::BF16, h, DType::F32);
        if (!std::isnan(b)) {
            EXPECT_EQ(bfloat(b), h);
        }
    }
}

}  // namespace
}  // namespace roll::tensor
