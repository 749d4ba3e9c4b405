// Opens distributed checkpoints: Megatron's torch_dist, and torch's own format (DCP) with native or
// HuggingFace names.
#pragma once

#include <filesystem>
#include <optional>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/formats/dcp.hpp"

namespace roll::convert {

// Returns the directory with the checkpoint's files: `root` itself, its weights/ or model_weights/,
// the iteration that the tracker file names, or that iteration's dist_model/. Returns nullopt if
// there is none.
std::optional<std::filesystem::path> dist_directory(const std::filesystem::path& root);

// Returns TorchDist if the checkpoint has Megatron's metadata.json and this file names torch_dist.
// Returns Dcp if there is no metadata.json. Fails with InvalidArgument if metadata.json names
// another kind.
Result<Format> dist_format(const std::filesystem::path& directory);

// Opens the checkpoint at source.directory. `given` is the config's directory if the config is not
// beside the checkpoint.
Result<void> open_dist(Source& source, const families::Families& families,
                       const std::filesystem::path& given);

// Maps the tensors of `source.native` from the files in `directory`. Requires that the source's
// family and model are set.
Result<void> read_dist_tensors(Source& source, const std::filesystem::path& directory,
                               const formats::DcpMetadata& metadata);

}  // namespace roll::convert
