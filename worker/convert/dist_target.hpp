// Writes distributed checkpoints: one .distcp file with a chunk for each layer and expert, and the
// metadata that makes any Megatron or torch read it at its own layout.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/target.hpp"
#include "worker/formats/dcp.hpp"

namespace roll::convert {

// In iter_0000001/dist_model, as ROLL has it; finish_torch_dist() puts names for Megatron beside.
Result<std::vector<Stored>> torch_dist_layout(const Source& source,
                                              const formats::McaConfig& config);
// In iter_0000001, as Megatron's FSDP has it.
Result<std::vector<Stored>> fsdp_dtensor_layout(const Source& source,
                                                const formats::McaConfig& config);
// HuggingFace tensors, in the directory itself.
std::vector<Stored> dcp_layout(const Source& source);

Result<std::unique_ptr<TargetWriter>> create_distcp(const std::filesystem::path& path,
                                                    const TargetFile& file,
                                                    const std::filesystem::path& earlier);

// The metadata, and what else makes the checkpoint whole, its mark last. `args` are Megatron's.
Result<void> finish_torch_dist(const Plan& plan, const Json& args,
                               const std::filesystem::path& directory);
Result<void> finish_fsdp_dtensor(const Plan& plan, const Json& args,
                                 const std::filesystem::path& directory);
// `originals`: shapes of tensors that are kept in a flat form.
Result<void> finish_dcp(const Plan& plan, std::vector<formats::DcpObject> objects,
                        const std::filesystem::path& directory,
                        const std::map<std::string, tensor::Shape>& originals = {});

}  // namespace roll::convert
