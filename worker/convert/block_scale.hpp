// Weights of eight bits with a number for each block, as DeepSeek publishes them: beside NAME there
// is NAME_scale_inv, and the weight is one times the other, in fp32.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/error.hpp"
#include "common/tensor/view.hpp"
#include "worker/convert/lora.hpp"

namespace roll::convert {

struct BlockScale {
    tensor::StridedView scales;  // [rows / block_rows, columns / block_columns], rounded up
    std::int64_t block_rows = 128;
    std::int64_t block_columns = 128;
};

// Multiplies the box's elements by their blocks' numbers.
void apply(const BlockScale& scale, const ChangedBox& box, float* values);

// The tensor whose blocks a tensor of this name scales; empty if it is none.
std::string scaled_by(const std::string& name);

// Tensors found beside a source's own, by the name of what they scale: from then on those are read
// as bf16. InvalidArgument or Corrupt names one that is not of eight bits, or scales of other
// sizes.
Result<void> attach_scales(Source& source, const std::map<std::string, tensor::StridedView>& found);

}  // namespace roll::convert
