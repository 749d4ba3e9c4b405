// Opens NeMo 1.x checkpoints: a directory or a .nemo archive with a YAML file and, for each rank, a
// model_weights.ckpt. Also opens the layout of trlX's converter.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Returns whether `path` is a directory with NeMo's files, or a file whose name ends in .nemo.
bool is_nemo(const std::filesystem::path& path);

// Opens the checkpoint at source.directory. `given` is the config's directory if the config is not
// beside the checkpoint.
Result<void> open_nemo(Source& source, const families::Families& families,
                       const std::filesystem::path& given);

}  // namespace roll::convert
