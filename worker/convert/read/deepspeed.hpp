// Opens DeepSpeed checkpoints (ZeRO 1 to 3, universal). Reads the fp32 master weights. DeepSpeed
// flattens them and splits the flat array over the data-parallel ranks. The reader therefore
// converts each rank's range of the flat array to rectangular blocks of the tensors.
#pragma once

#include <filesystem>
#include <optional>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Returns the directory of the newest step. This is `root` itself, or the directory below it that
// the tracker file names. Returns nullopt if `root` is not a DeepSpeed checkpoint.
std::optional<std::filesystem::path> deepspeed_directory(const std::filesystem::path& root);

// Opens the checkpoint at source.directory. `given` is the directory of the config, if the config
// is not beside the checkpoint.
Result<void> open_deepspeed(Source& source, const families::Families& families,
                            const std::filesystem::path& given);

}  // namespace roll::convert
