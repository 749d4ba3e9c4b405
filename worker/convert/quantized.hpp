// HuggingFace checkpoints whose weights are codes of a quantization, which no conversion can read
// as numbers. Blocks of eight bits with scales (block_scale.hpp) are not among them.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/tensor/view.hpp"

namespace roll::convert {

// InvalidArgument names the method that the config says, and how its weights become numbers again.
Result<void> check_not_quantized(const std::filesystem::path& directory, const Json& hf_config);

// The same by a tensor's name and type, of files whose config says nothing.
Result<void> check_not_quantized(const std::filesystem::path& file, const tensor::TensorInfo& info);

}  // namespace roll::convert
