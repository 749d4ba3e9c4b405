// 8-bit weights with one scale per block, as DeepSeek publishes them: the scales of tensor NAME are
// in NAME_scale_inv. The weight is the product of 8-bit value and scale, in fp32.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/error.hpp"
#include "common/tensor/view.hpp"
#include "worker/convert/delta.hpp"

namespace roll::convert {

struct Source;

struct BlockScale {
    // one scale per block: [rows / block_rows, columns / block_columns], rounded up
    tensor::StridedView scales;
    std::int64_t block_rows = 128;
    std::int64_t block_columns = 128;
};

// Multiplies each element of the box by the scale of its block, in place.
void apply(const BlockScale& scale, const ChangedBox& box, float* values);

// Returns the name of the tensor whose scales are in tensor `name`; empty if `name` holds no
// scales.
std::string scaled_by(const std::string& name);

// Attaches scale tensors to the source's 8-bit tensors, which are then read as bf16. `found` maps
// the name of an 8-bit tensor to its scales. Fails with InvalidArgument or Corrupt if a tensor with
// scales is not 8-bit or its scales have the wrong shape.
Result<void> attach_scales(Source& source, const std::map<std::string, tensor::StridedView>& found);

}  // namespace roll::convert
