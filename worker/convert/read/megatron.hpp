// Opens Megatron's own checkpoints. They have one torch file per rank, with weights, the run's
// arguments and the checkpoint version. Also reads older versions, which have other names, nested
// dicts and other orders of attention rows.
#pragma once

#include <filesystem>
#include <optional>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Returns the directory that contains the rank directories; nullopt if `root` is not a Megatron
// checkpoint.
std::optional<std::filesystem::path> megatron_directory(const std::filesystem::path& root);

// Opens the checkpoint at source.directory. `given` is the directory of the config, if the config
// is not beside the checkpoint.
Result<void> open_megatron(Source& source, const families::Families& families,
                           const std::filesystem::path& given);

}  // namespace roll::convert
