// Attaches the block scales of 8-bit weights to a checkpoint.
#pragma once

#include <map>
#include <string>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Attaches scale tensors to the source's 8-bit tensors, which are then read as bf16. `found` maps
// the name of an 8-bit tensor to its scales. Fails with InvalidArgument or Corrupt if a tensor with
// scales is not 8-bit or its scales have the wrong shape.
Result<void> attach_scales(Source& source, const std::map<std::string, tensor::StridedView>& found);

}  // namespace roll::convert
