// Writes distributed checkpoints. They have one .distcp file with a chunk for each layer and
// expert, and metadata from which Megatron and torch can load the checkpoint in any layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/write/files.hpp"
#include "worker/formats/dcp.hpp"

namespace roll::convert {

// Returns the target's tensors. Their file is in the folder iter_0000001/dist_model, as in
// checkpoints of the framework ROLL. finish_torch_dist() adds links with the names that Megatron
// expects.
Result<std::vector<Stored>> torch_dist_layout(const Source& source,
                                              const formats::McaConfig& config);
// Like torch_dist_layout(), but the file is in iter_0000001/dist_optimizer, where ROLL keeps the
// optimizer's state beside rank files of the weights.
Result<std::vector<Stored>> roll_optimizer_layout(const Source& source,
                                                  const formats::McaConfig& config);
// Returns the layout of one optimizer state in buckets (Megatron's kind dp_reshardable). If
// `is_beside_ranks` is true, the states are in the file of roll_optimizer_layout(), else in the
// file of torch_dist_layout().
Result<BucketLayout> optimizer_buckets(const Source& source, const formats::McaConfig& config,
                                       const BucketRule& rule, bool is_beside_ranks);
// Returns the target's tensors. Their file is in iter_0000001, as with Megatron's FSDP.
Result<std::vector<Stored>> fsdp_dtensor_layout(const Source& source,
                                                const formats::McaConfig& config);
// Returns the target's tensors with HuggingFace names. Their file is directly in the target
// directory.
std::vector<Stored> dcp_layout(const Source& source);

Result<std::unique_ptr<TargetWriter>> create_distcp(const std::filesystem::path& path,
                                                    const TargetFile& file,
                                                    const std::filesystem::path& earlier);

// Adds the names of the extra states of the module that holds the tensor `key`. Some tensors stack
// the parameters of several layers or experts. `stacked` has the sizes of the stacked dims, and
// `origin` has the tensor's index in each of these dims. Both are empty for other tensors.
//
// Megatron requires the extra state of each module that has an extra state in any layout, and
// ignores extra states that it does not need. Roll writes the value None for each extra state.
void add_extra_states(std::set<std::string>& names, const std::string& key, const Shape& origin,
                      const Shape& stacked);

// Writes the files that describe the tensors in a torch_dist directory. `metadata`: the tensors.
Result<void> write_dist_head(formats::DcpMetadata metadata,
                             const std::set<std::string>& extra_states,
                             const std::filesystem::path& directory);

// Writes common.pt of a torch_dist directory. `args`: Megatron's arguments; null: none.
// `optimizer`: the values of optimizer_values(); null: the checkpoint has no optimizer state.
Result<void> write_dist_common(const Json& args, std::int64_t iteration, const Json& optimizer,
                               const std::filesystem::path& directory);

// Write the metadata and the remaining files. The file that identifies the format is written last.
// `args` are Megatron's arguments.
Result<void> finish_torch_dist(const Plan& plan, const Json& args,
                               const std::filesystem::path& directory);
Result<void> finish_roll_optimizer(const Plan& plan, const std::filesystem::path& directory);
Result<void> finish_fsdp_dtensor(const Plan& plan, const Json& args,
                                 const std::filesystem::path& directory);
// Writes the metadata of torch's own format. `originals` maps the name of each flattened tensor to
// its original shape.
Result<void> finish_dcp(const Plan& plan, std::vector<formats::DcpObject> objects,
                        const std::filesystem::path& directory,
                        const std::map<std::string, tensor::Shape>& originals = {});

}  // namespace roll::convert
