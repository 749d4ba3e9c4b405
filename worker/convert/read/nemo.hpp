// Opens NeMo 1.x checkpoints: a directory or a .nemo archive with a YAML file and one
// model_weights.ckpt for each rank. Also opens checkpoints in the layout of trlX's converter.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Returns true if `path` is a directory with NeMo's files, or a file whose name ends in .nemo.
bool is_nemo(const std::filesystem::path& path);

// Opens the checkpoint at source.directory. `given` is the directory of the config, if the config
// is not beside the checkpoint.
Result<void> open_nemo(Source& source, const families::Families& families,
                       const std::filesystem::path& given);

}  // namespace roll::convert
