// Describes the tensors and other files of a target directory, and writes these files.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/write/files.hpp"
#include "worker/convert/write/output.hpp"

namespace roll::convert {

// Returns the target's tensors, each with its file.
Result<std::vector<Stored>> target_layout(const Source& source, const Output& output, Format to);

// Returns the layout of one optimizer state in the target. The target stores each state with this
// layout. `to` must be TorchDist or Mca. For Mca, the state is in a torch_dist directory beside the
// weights, as in ROLL's checkpoints. Sets `sizes` to the sizes of the buckets if the optimizer's
// kind is dp_reshardable, else to nullopt. The first `model_tensors` tensors of the model are
// weights.
Result<std::vector<Stored>> optimizer_layout(const Source& source, const Output& output, Format to,
                                             std::size_t model_tensors,
                                             std::optional<BucketSizes>& sizes);

// Adds the run's arguments and the checkpoint version to each file of the plan if `to` is Megatron.
// Does nothing for other formats.
void complete_plan(const Source& source, const Output& output, Format to, Plan& plan);

// Writes every file without tensors (config.json, index, tracker, tokenizer, ...) into `directory`.
Result<void> write_companions(const Source& source, const Plan& plan, const Output& output,
                              Format to, const std::filesystem::path& directory);

// Creates a file of tensors below `directory`. `reuse` is an earlier target, or empty. If `reuse`
// has an identical file, the new file becomes a link to it.
Result<std::unique_ptr<TargetWriter>> create_target(const std::filesystem::path& directory,
                                                    const TargetFile& file,
                                                    const std::filesystem::path& reuse = {});

}  // namespace roll::convert
