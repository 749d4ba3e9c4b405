// Writes distributed checkpoints. They have one .distcp file with a chunk for each layer and
// expert, and metadata from which Megatron and torch can load the checkpoint in any layout.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/write/files.hpp"
#include "worker/formats/dcp.hpp"

namespace roll::convert {

// Returns the target's tensors. Their file is in iter_0000001/dist_model, as in ROLL.
// finish_torch_dist() adds links for Megatron.
Result<std::vector<Stored>> torch_dist_layout(const Source& source,
                                              const formats::McaConfig& config);
// Returns the target's tensors. Their file is in iter_0000001, as with Megatron's FSDP.
Result<std::vector<Stored>> fsdp_dtensor_layout(const Source& source,
                                                const formats::McaConfig& config);
// Returns the target's tensors with HuggingFace names. Their file is directly in the target
// directory.
std::vector<Stored> dcp_layout(const Source& source);

Result<std::unique_ptr<TargetWriter>> create_distcp(const std::filesystem::path& path,
                                                    const TargetFile& file,
                                                    const std::filesystem::path& earlier);

// Write the metadata and the remaining files. The file that identifies the format is written last.
// `args` are Megatron's arguments.
Result<void> finish_torch_dist(const Plan& plan, const Json& args,
                               const std::filesystem::path& directory);
Result<void> finish_fsdp_dtensor(const Plan& plan, const Json& args,
                                 const std::filesystem::path& directory);
// Writes the metadata of torch's own format. `originals` maps the name of each flattened tensor to
// its original shape.
Result<void> finish_dcp(const Plan& plan, std::vector<formats::DcpObject> objects,
                        const std::filesystem::path& directory,
                        const std::map<std::string, tensor::Shape>& originals = {});

}  // namespace roll::convert
