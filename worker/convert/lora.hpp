// LoRA merged while a model streams by: W' = W + scale * B A, in fp32, with one rounding at the
// end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "common/error.hpp"
#include "common/tensor/view.hpp"

namespace roll::convert {

struct Source;

// The change to one HuggingFace tensor [rows, columns]: element (i, j) gains sum over k of
// left[i, k] * right[k, j]; then, with DoRA, row i is scaled by row_scale[i]. The scale is in
// `left`.
struct Delta {
    std::int64_t rows = 0, columns = 0, lora_rank = 0;
    float scale = 1;
    std::vector<float> left;       // [rows, lora_rank]
    std::vector<float> right;      // [lora_rank, columns]
    std::vector<float> row_scale;  // [rows], or empty
};

// A box of the tensor that starts at (row, column), its elements at the given strides: a packed
// tensor may hold it turned, or with other rows between its own.
struct ChangedBox {
    std::int64_t row = 0, column = 0;
    std::int64_t rows = 0, columns = 0;
    std::int64_t row_stride = 0, column_stride = 1;
};
void apply(const Delta& delta, const ChangedBox& box, float* values);

// If every one of these castable elements is a number: a merge may leave the range of its type.
bool all_finite(tensor::DType dtype, std::span<const std::byte> elements);

// In: W + scale * B A. Out: W - scale * B A, of a model that it was merged into.
enum class Folding { In, Out };

// Puts an adapter over an opened model: modules saved whole replace the model's, the others become
// deltas of it. Every tensor of the adapter is used, or the error names it. Out is refused where
// the base cannot be had back: of modules saved whole and of DoRA, which forget it.
Result<void> attach_adapter(Source& source, const std::filesystem::path& adapter,
                            Folding folding = Folding::In);

}  // namespace roll::convert
