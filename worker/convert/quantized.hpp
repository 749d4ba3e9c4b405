// Refuses HuggingFace checkpoints with quantized weights, which no conversion can read. 8-bit
// blocks with scales (block_scale.hpp) are not refused.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/tensor/view.hpp"

namespace roll::convert {

// Fails with InvalidArgument, the method that the config names and the tool that dequantizes.
Result<void> check_not_quantized(const std::filesystem::path& directory, const Json& hf_config);

// The same by a tensor's name and type, for files whose config says nothing.
Result<void> check_not_quantized(const std::filesystem::path& file, const tensor::TensorInfo& info);

}  // namespace roll::convert
