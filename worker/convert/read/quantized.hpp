// Reads quantized HuggingFace weights in blocks of 8-bit values with scales (fp8). Refuses all
// other kinds of quantization, because Roll cannot convert them.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/tensor/view.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Attaches scale tensors to the source's 8-bit tensors. The 8-bit tensors are then read as bf16.
// `found` maps the name of an 8-bit tensor to its scales. Fails with InvalidArgument or Corrupt if
// a tensor with scales is not 8-bit, or if its scales have a wrong shape.
Result<void> attach_scales(Source& source, const std::map<std::string, tensor::StridedView>& found);

// Fails with InvalidArgument if `hf_config` says that the weights are quantized with another method
// than fp8. The message names `directory`, the quantization method and the tool that dequantizes
// the weights.
Result<void> check_not_quantized(const std::filesystem::path& directory, const Json& hf_config);

// Fails with InvalidArgument if a tensor's name and type show that it is quantized. This check is
// needed because some quantized checkpoints do not mention the quantization in their config.
Result<void> check_not_quantized(const std::filesystem::path& file, const tensor::TensorInfo& info);

}  // namespace roll::convert
