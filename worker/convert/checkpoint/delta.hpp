// Adds a LoRA product to weights while a model is converted: W' = W + scale * B A. The sum is
// computed in fp32 and rounded once at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/tensor/dtype.hpp"

namespace roll::convert {

// The change that an adapter makes to one HuggingFace tensor [rows, columns]. Element (i, j) grows
// by `scale` times the sum over k of left[i, k] * right[k, j]. With DoRA, row i is then multiplied
// by row_scale[i].
struct Delta {
    std::int64_t rows = 0, columns = 0, lora_rank = 0;
    float scale = 1;
    std::vector<float> left;         // matrix [rows, lora_rank]
    std::vector<float> right_tiles;  // matrix `right` in the form of in_tiles()
    std::vector<float> row_scale;    // one factor per row; may be empty
};

// Stores a matrix [rows, columns] as consecutive tiles. Each tile has 32 columns and the shape
// [rows, 32]. The last tile is padded with zeros.
std::vector<float> in_tiles(const std::vector<float>& matrix, std::int64_t rows,
                            std::int64_t columns);

// A rectangular part of a tensor. It begins at (row, column). The strides, in elements, are those
// of the buffer that holds the part. In the buffer of a packed tensor, the part may be transposed,
// and other rows may lie between the rows of the part.
struct ChangedBox {
    std::int64_t row = 0, column = 0;
    std::int64_t rows = 0, columns = 0;
    std::int64_t row_stride = 0, column_stride = 1;
};

// The elements of a ChangedBox before the change, with their own strides.
struct BoxSource {
    const std::byte* first = nullptr;
    std::int64_t row_stride = 0, column_stride = 1;
};

// Returns true if apply() accepts elements of the type, that is, BF16 or F32.
bool is_changed_in_place(tensor::DType dtype);

// Reads the elements of `box` from `from`, changes them in fp32, rounds them once, and writes them
// to `to` with the strides of `box`. `from` and `to` hold elements of `dtype` and may be the same
// memory.
void apply(const Delta& delta, const ChangedBox& box, tensor::DType dtype, const BoxSource& from,
           std::byte* to);

// Returns true if all elements are finite. An element whose sum exceeds the range of its type is
// not finite. `dtype` must be castable.
bool all_finite(tensor::DType dtype, std::span<const std::byte> elements);

}  // namespace roll::convert
