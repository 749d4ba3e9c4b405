// Refuses HuggingFace checkpoints whose weights are quantized in a form that no conversion can
// read. 8-bit blocks with scales (block_scale.hpp) can be read and are not refused.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/tensor/view.hpp"

namespace roll::convert {

// Fails with InvalidArgument if the config of `directory` says that the weights are quantized. The
// message names the method and the tool that dequantizes them.
Result<void> check_not_quantized(const std::filesystem::path& directory, const Json& hf_config);

// Fails with InvalidArgument if a tensor's name and type show that it is quantized. Needed because
// the config of some quantized checkpoints does not mention the quantization.
Result<void> check_not_quantized(const std::filesystem::path& file, const tensor::TensorInfo& info);

}  // namespace roll::convert
