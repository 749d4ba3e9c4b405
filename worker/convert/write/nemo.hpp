// Writes the layout of trlX's converter. It has model_weights.ckpt or, with several ranks,
// mp_rank_TT/model_weights.ckpt, and the training config in YAML. The layout has no pipeline
// stages; programs that read it distribute the layers themselves.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/plan/plan.hpp"

namespace roll::convert {

// Returns the target's tensors. Fails with InvalidArgument if the layout has pipeline or expert
// ranks, or if this format has no name for a tensor.
Result<std::vector<Stored>> nemo_layout(const Source& source, const formats::McaConfig& config);

// Writes megatron_NAME.yaml and model_config.yaml. With these two files, a tar archive of the
// directory is a .nemo archive.
Result<void> write_nemo_configs(const formats::McaConfig& config, const std::string& name,
                                const std::filesystem::path& directory);

}  // namespace roll::convert
