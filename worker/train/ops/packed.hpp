// Packs a weight [O, I] into few bits and unpacks it, with the values of bitsandbytes. The form is
// described in common/spec/train/packed_form.hpp. Weights are packed on the CPU and unpacked on the
// device of the packed rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/spec/train/packed_form.hpp"

namespace roll::ops {

// Returns the table NF4 of bitsandbytes: quantiles of the normal distribution, scaled to [-1, 1].
std::span<const float> nf4_values();

// Returns the dynamic map of bitsandbytes (arXiv 1511.04561): signed numbers with a decimal
// exponent and a fraction. The fraction has more bits for large numbers. The numbers are in
// ascending order.
std::span<const float> scale_values();

// 1 / 127, rounded as bitsandbytes does
inline constexpr float kOf127 = 7.874015718698502e-3F;

// The matrices of which the rows of a fused weight consist. The rows form `groups` groups of equal
// length. Each group has runs[k] consecutive rows of matrix k. Rows of a matrix are in order.
struct FusedRows {
    std::int64_t groups = 1;
    std::vector<std::int64_t> runs;
};

// Packs columns [form.first_column, form.first_column + form.columns) of w_OI, a float or double
// weight with all columns. Returns the packed rows as bytes, [O, form.row_bytes()]. If the scales
// are packed, the scales of each matrix in `fused` are packed separately, as if the matrix were not
// fused.
at::Tensor packed(const spec::PackedForm& form, const at::Tensor& w_OI, const FusedRows& fused);

// Returns the weight [O, form.columns] of the packed rows. Values are computed in float, then
// rounded to `type`: float, double, bfloat16 or float16.
at::Tensor unpacked(const spec::PackedForm& form, const at::Tensor& bytes_OR, at::ScalarType type);

}  // namespace roll::ops
