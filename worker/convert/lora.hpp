// Merges LoRA into weights while a model is converted: W' = W + scale * B A. The result is computed
// in fp32 and rounded once at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "common/error.hpp"
#include "common/tensor/view.hpp"

namespace roll::convert {

struct Source;

// The change that an adapter makes to one HuggingFace tensor [rows, columns]. Adds to element (i,
// j) `scale` times the sum over k of left[i, k] * right[k, j]. With DoRA, row i is then multiplied
// by row_scale[i].
struct Delta {
    std::int64_t rows = 0, columns = 0, lora_rank = 0;
    float scale = 1;
    std::vector<float> left;       // [rows, lora_rank]
    std::vector<float> right;      // [lora_rank, columns]
    std::vector<float> row_scale;  // [rows] with DoRA, else empty
};

// A box of a tensor, at (row, column), and the strides of the buffer that holds the box, in
// elements. A packed tensor may hold the box transposed or with other rows in between.
struct ChangedBox {
    std::int64_t row = 0, column = 0;
    std::int64_t rows = 0, columns = 0;
    std::int64_t row_stride = 0, column_stride = 1;
};
void apply(const Delta& delta, const ChangedBox& box, float* values);

// Returns whether all elements are finite, because a merge may overflow the range of the tensor's
// type. Requires a castable type.
bool all_finite(tensor::DType dtype, std::span<const std::byte> elements);

// The direction of a merge. In adds scale * B A to W. Out subtracts scale * B A from a W into which
// it was merged.
enum class Folding { In, Out };

// Attaches an adapter to an opened model. If the adapter saves a module whole, its tensors replace
// the model's; LoRA modules become deltas (changes that are applied when a tensor is read). Fails
// if a tensor of the adapter does not fit the model. Folding::Out fails for whole modules and DoRA,
// because the base's values cannot be restored from them.
Result<void> attach_adapter(Source& source, const std::filesystem::path& adapter,
                            Folding folding = Folding::In);

}  // namespace roll::convert
