// Writes distributed checkpoints: one .distcp file with a chunk per layer and expert, and the
// metadata with which Megatron and torch read it in any layout.
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

// Returns the target's tensors. Their file is in iter_0000001/dist_model as in ROLL;
// finish_torch_dist() adds links for Megatron.
Result<std::vector<Stored>> torch_dist_layout(const Source& source,
                                              const formats::McaConfig& config);
// Returns the target's tensors. Their file is in iter_0000001 as in Megatron's FSDP.
Result<std::vector<Stored>> fsdp_dtensor_layout(const Source& source,
                                                const formats::McaConfig& config);
// Returns the target's tensors with HuggingFace names. Their file is in the directory itself.
std::vector<Stored> dcp_layout(const Source& source);

Result<std::unique_ptr<TargetWriter>> create_distcp(const std::filesystem::path& path,
                                                    const TargetFile& file,
                                                    const std::filesystem::path& earlier);

// Write the metadata and the remaining files. Each function writes the file that identifies the
// format last. `args` are Megatron's arguments.
Result<void> finish_torch_dist(const Plan& plan, const Json& args,
                               const std::filesystem::path& directory);
Result<void> finish_fsdp_dtensor(const Plan& plan, const Json& args,
                                 const std::filesystem::path& directory);
// Writes the metadata of torch's own format. `originals` holds the original shape of each tensor
// that is stored flat, by name.
Result<void> finish_dcp(const Plan& plan, std::vector<formats::DcpObject> objects,
                        const std::filesystem::path& directory,
                        const std::map<std::string, tensor::Shape>& originals = {});

}  // namespace roll::convert
