// Opens DeepSpeed checkpoints (ZeRO 1 to 3, universal). Reads the fp32 master weights, which are
// stored flat and split over the data-parallel ranks. Each range of a flat group covers a few boxes
// of a tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Returns the directory of the step below a checkpoint's root; nullopt for other formats.
std::optional<std::filesystem::path> deepspeed_directory(const std::filesystem::path& root);

// `given` is the config's directory if it is not beside the checkpoint.
Result<void> open_deepspeed(Source& source, const families::Families& families,
                            const std::filesystem::path& given);

// Calls `box` for each box that the elements [begin, end) of a row-major tensor cover. `first` is
// the index of the box's first element.
using Box = std::function<void(const Shape& begin, const Shape& size, std::int64_t first)>;
void boxes_of_range(const Shape& shape, std::int64_t begin, std::int64_t end, const Box& box);

}  // namespace roll::convert
