// Opens DeepSpeed checkpoints (ZeRO 1 to 3, universal). Reads the fp32 master weights, which are
// stored flat and split over the data-parallel ranks. A range of the flat elements corresponds to a
// few boxes of a tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Returns the directory of the newest step: `root`, or the directory below it that the tracker file
// names. Returns nullopt if `root` has another format.
std::optional<std::filesystem::path> deepspeed_directory(const std::filesystem::path& root);

// Opens the checkpoint at source.directory. `given` is the config's directory if the config is not
// beside the checkpoint.
Result<void> open_deepspeed(Source& source, const families::Families& families,
                            const std::filesystem::path& given);

// Called for each box: its first corner `begin`, its `size`, and the row-major index `first` of its
// first element.
using Box = std::function<void(const Shape& begin, const Shape& size, std::int64_t first)>;
// Splits the elements [begin, end) of a row-major tensor into boxes and calls `box` for each.
void boxes_of_range(const Shape& shape, std::int64_t begin, std::int64_t end, const Box& box);

}  // namespace roll::convert
