// Opens DeepSpeed's checkpoints, ZeRO 1 to 3 and universal ones: the fp32 master weights, which lie
// flat and cut over the data-parallel ranks. Each range of a flat group is a few boxes of a tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// The step's directory below a checkpoint's root, if there is one.
std::optional<std::filesystem::path> deepspeed_directory(const std::filesystem::path& root);

// `given`: where the config is, if not beside the checkpoint.
Result<void> open_deepspeed(Source& source, const families::Families& families,
                            const std::filesystem::path& given);

// The boxes that the elements [begin, end) of a row-major tensor are, each with the number of its
// first element.
using Box = std::function<void(const Shape& begin, const Shape& size, std::int64_t first)>;
void boxes_of_range(const Shape& shape, std::int64_t begin, std::int64_t end, const Box& box);

}  // namespace roll::convert
