// Blocks of a parameter's elements, for rules that compute with tensors on a GPU.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/layout/shards.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Divides the parts of a parameter into blocks of consecutive rows. A block has at most 2^22
// elements, or one row. This limits the memory of the tensors that a rule makes for a block.
std::vector<layout::Part> part_blocks(const std::vector<layout::Part>& parts,
                                      const ParameterSpec& spec);

// Returns the view of the block in `own`. `own` has all rows of the parameter that this rank owns.
at::Tensor view_of(const layout::Part& block, const at::Tensor& own);

// Returns the index in the whole parameter of each element of the block: int64, with the sizes of
// view_of().
at::Tensor indices_of(const layout::Part& block, const ParameterSpec& spec, at::Device device);

}  // namespace roll::train
