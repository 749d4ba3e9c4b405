// Changes weights by a LoRA product while a model is converted: W' = W + scale * B A, computed in
// fp32 and rounded once at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/tensor/dtype.hpp"

namespace roll::convert {

// The change that an adapter makes to one HuggingFace tensor [rows, columns]. Adds to element (i,
// j) `scale` times the sum over k of left[i, k] * right[k, j]. With DoRA, row i is then multiplied
// by row_scale[i].
struct Delta {
    std::int64_t rows = 0, columns = 0, lora_rank = 0;
    float scale = 1;
    std::vector<float> left;         // [rows, lora_rank]
    std::vector<float> right_tiles;  // the matrix right, stored by in_tiles()
    std::vector<float> row_scale;    // [rows], or empty
};

// Stores a matrix [rows, columns] as consecutive tiles of 32 columns, each [rows, 32]. The last
// tile is padded with zeros.
std::vector<float> in_tiles(const std::vector<float>& matrix, std::int64_t rows,
                            std::int64_t columns);

// A box of a tensor, at (row, column), and the strides of the buffer that holds the box, in
// elements. A packed tensor may hold the box transposed or with other rows in between.
struct ChangedBox {
    std::int64_t row = 0, column = 0;
    std::int64_t rows = 0, columns = 0;
    std::int64_t row_stride = 0, column_stride = 1;
};

// The elements of a box before the change, with their own strides.
struct BoxSource {
    const std::byte* first = nullptr;
    std::int64_t row_stride = 0, column_stride = 1;
};

// True if apply() accepts elements of the type: BF16 or F32.
bool is_changed_in_place(tensor::DType dtype);

// Reads a box from `from`, changes it in fp32 and writes it to `to` with the strides of `box`,
// rounded once. Both hold elements of `dtype` and may be the same memory.
void apply(const Delta& delta, const ChangedBox& box, tensor::DType dtype, const BoxSource& from,
           std::byte* to);

// Returns whether all elements are finite. A merge may overflow the range of the tensor's type.
// Requires a castable type.
bool all_finite(tensor::DType dtype, std::span<const std::byte> elements);

}  // namespace roll::convert
