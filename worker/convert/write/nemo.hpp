// Writes the layout of trlX's converter: model_weights.ckpt, or mp_rank_TT/model_weights.ckpt, and
// the training config in YAML. The layout has no pipeline stages; programs that read it distribute
// the layers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/plan/plan.hpp"

namespace roll::convert {

// Returns the target's tensors. Fails with InvalidArgument for a layout with pipeline or expert
// ranks, or for a tensor that has no name in this format.
Result<std::vector<Stored>> nemo_layout(const Source& source, const formats::McaConfig& config);

// Writes megatron_NAME.yaml and model_config.yaml. With these files, a tar of the directory is a
// .nemo archive.
Result<void> write_nemo_configs(const formats::McaConfig& config, const std::string& name,
                                const std::filesystem::path& directory);

}  // namespace roll::convert
