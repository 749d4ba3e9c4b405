// Opens distributed checkpoints: Megatron's torch_dist format, and torch's own format (DCP) with
// native or HuggingFace names.
#pragma once

#include <filesystem>
#include <optional>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/convert/read/buckets.hpp"
#include "worker/formats/dcp.hpp"

namespace roll::convert {

// Returns the directory that contains the checkpoint's files. This may be `root` itself, its
// subdirectory weights/ or model_weights/, the iteration that the tracker file names, or that
// iteration's dist_model/. Returns nullopt if no such directory exists.
std::optional<std::filesystem::path> dist_directory(const std::filesystem::path& root);

// Returns TorchDist if the checkpoint has a metadata.json of Megatron that names torch_dist.
// Returns Dcp if there is no metadata.json. Fails with InvalidArgument if metadata.json names
// another format.
Result<Format> dist_format(const std::filesystem::path& directory);

// Opens the checkpoint at source.directory. `given` is the directory of the config, if the config
// is not beside the checkpoint.
Result<void> open_dist(Source& source, const families::Families& families,
                       const std::filesystem::path& given);

// Maps the tensors of `source.native` from the files in `directory`. Requires that the family and
// the model of `source` are set. `writer` tells how the run that wrote the checkpoint divided the
// model. It is null if this is unknown.
Result<void> read_dist_tensors(Source& source, const std::filesystem::path& directory,
                               const formats::DcpMetadata& metadata,
                               const WriterLayout* writer = nullptr);

// Opens the optimizer state source.state of a ROLL checkpoint. `directory` is the checkpoint's
// dist_optimizer directory, which holds the state of the distributed optimizer. The config is
// mca_config.json in source.directory.
Result<void> open_dist_optimizer(Source& source, const families::Families& families,
                                 const std::filesystem::path& directory);

}  // namespace roll::convert
