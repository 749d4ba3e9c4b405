// Opens Megatron's own checkpoints: a torch file for each rank with its weights, the arguments of
// the run and the checkpoint's version. Also what older versions wrote: other names, nested dicts,
// other orders of attention's rows.
#pragma once

#include <filesystem>
#include <optional>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// The directory of the ranks' directories below a checkpoint's root, if there is one.
std::optional<std::filesystem::path> megatron_directory(const std::filesystem::path& root);

// `given`: where the config is, if not beside the checkpoint.
Result<void> open_megatron(Source& source, const families::Families& families,
                           const std::filesystem::path& given);

}  // namespace roll::convert
