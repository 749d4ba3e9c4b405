// Opens distributed checkpoints: Megatron's torch_dist, and torch's own (DCP) with native or
// HuggingFace names.
#pragma once

#include <filesystem>
#include <optional>

#include "common/error.hpp"
#include "worker/convert/source.hpp"
#include "worker/formats/dcp.hpp"

namespace roll::convert {

// Where below a checkpoint's root such a checkpoint lies, if it is one: in the root itself, in
// weights/ or model_weights/, in the iteration that the tracker names, or in dist_model/ there.
std::optional<std::filesystem::path> dist_directory(const std::filesystem::path& root);

// TorchDist if Megatron's mark says so, else Dcp. InvalidArgument: a mark of another kind.
Result<Format> dist_format(const std::filesystem::path& directory);

// `given`: where the config is, if not beside the checkpoint.
Result<void> open_dist(Source& source, const families::Families& families,
                       const std::filesystem::path& given);

// The tensors of source.native in this directory of a distributed checkpoint; the source's family
// and model are known.
Result<void> read_dist_tensors(Source& source, const std::filesystem::path& directory,
                               const formats::DcpMetadata& metadata);

}  // namespace roll::convert
