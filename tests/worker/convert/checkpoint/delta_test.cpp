// Compares the change of an adapter bit by bit with a change that is computed element by element.
#include "worker/convert/checkpoint/delta.hpp"

#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

namespace roll::convert {
namespace {

using tensor::DType;

struct Case {
    std::int64_t rows, columns, lora_rank;
    ChangedBox box;  // the box and its strides in the target
    std::int64_t from_row_stride, from_column_stride;
    bool has_row_scale;
};

// Whole tiles; edges on all sides; one column; transposed on either side.
const std::vector<Case> kCases{
    {8, 64, 16, {0, 0, 8, 64, 64, 1}, 64, 1, false},
    {8, 128, 3, {1, 5, 6, 100, 128, 1}, 101, 1, true},
    {5, 33, 1, {0, 0, 5, 33, 33, 1}, 40, 1, true},
    {9, 70, 4, {2, 31, 7, 1, 1, 1}, 3, 1, false},
    {6, 40, 2, {0, 0, 6, 40, 1, 6}, 40, 1, true},
    {6, 40, 2, {1, 2, 5, 38, 38, 1}, 1, 6, false},
    {4, 32, 0, {0, 0, 4, 32, 32, 1}, 32, 1, false},
};

std::vector<float> random_values(std::size_t count, std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    return values;
}

float value_at(DType dtype, const std::vector<std::byte>& bytes, std::int64_t at) {
    return static_cast<float>(
        tensor::load_float(dtype, bytes.data() + at * tensor::bits_of(dtype) / 8));
}

std::vector<std::byte> stored(DType dtype, const std::vector<float>& values) {
    std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(tensor::bits_of(dtype)) /
                                 8);
    tensor::cast(DType::F32, std::as_bytes(std::span(values)), dtype, bytes);
    return bytes;
}

void check(const Case& one, DType dtype) {
    std::mt19937 random(7);
    const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    Delta delta{one.rows, one.columns, one.lora_rank, 0.75F, {}, {}, {}};
    delta.left = random_values(size(one.rows * one.lora_rank), random);
    const auto right = random_values(size(one.lora_rank * one.columns), random);
    delta.right_tiles = in_tiles(right, one.lora_rank, one.columns);
    if (one.has_row_scale) delta.row_scale = random_values(size(one.rows), random);
    const std::vector<std::byte> from = stored(dtype, random_values(2000, random));
    std::vector<std::byte> to = stored(dtype, random_values(2000, random));
    std::vector<std::byte> want = to;
    const ChangedBox& box = one.box;
    for (std::int64_t i = 0; i < box.rows; ++i)
        for (std::int64_t j = 0; j < box.columns; ++j) {
            float sum = 0;
            for (std::int64_t k = 0; k < one.lora_rank; ++k) {
                const volatile float product =  // rounded, as without FMA
                    delta.left[size((box.row + i) * one.lora_rank + k)] *
                    right[size(k * one.columns + box.column + j)];
                sum += product;
            }
            const volatile float scaled = sum * delta.scale;
            float value =
                value_at(dtype, from, i * one.from_row_stride + j * one.from_column_stride);
            value += scaled;
            if (one.has_row_scale) value *= delta.row_scale[size(box.row + i)];
            const auto bytes = stored(dtype, {value});
            std::memcpy(
                want.data() + size(i * box.row_stride + j * box.column_stride) * bytes.size(),
                bytes.data(), bytes.size());
        }
    apply(delta, box, dtype, {from.data(), one.from_row_stride, one.from_column_stride}, to.data());
    EXPECT_EQ(to, want);
    std::vector<std::byte> in_place = from;
    to = from;
    const ChangedBox same{box.row,     box.column,          box.rows,
                          box.columns, one.from_row_stride, one.from_column_stride};
    const BoxSource source{from.data(), one.from_row_stride, one.from_column_stride};
    apply(delta, same, dtype, source, to.data());
    apply(delta, same, dtype, {in_place.data(), source.row_stride, source.column_stride},
          in_place.data());
    EXPECT_EQ(in_place, to);
}

TEST(Delta, EqualsTheSumOfEachElement) {
    for (const DType dtype : {DType::BF16, DType::F32})
        for (std::size_t i = 0; i < kCases.size(); ++i) {
            SCOPED_TRACE(std::to_string(i) + " in " + name_of(dtype));
            check(kCases[i], dtype);
        }
}

TEST(Delta, AnInfinityOrNaNIsFoundInEachType) {
    const auto is_finite = [](DType dtype, float last) {
        std::vector<float> values(37, 1.0F);
        values.back() = last;
        return all_finite(dtype, stored(dtype, values));
    };
    for (const DType dtype : {DType::BF16, DType::F16, DType::F32, DType::F64}) {
        EXPECT_TRUE(is_finite(dtype, 60000.0F)) << name_of(dtype);
        EXPECT_FALSE(is_finite(dtype, HUGE_VALF)) << name_of(dtype);
        EXPECT_FALSE(is_finite(dtype, -HUGE_VALF)) << name_of(dtype);
        EXPECT_FALSE(is_finite(dtype, NAN)) << name_of(dtype);
    }
}

}  // namespace
}  // namespace roll::convert
