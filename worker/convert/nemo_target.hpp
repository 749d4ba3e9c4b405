// Writes the layout of trlX's converter: model_weights.ckpt, or mp_rank_TT/model_weights.ckpt, and
// the training config in YAML. Pipelines are cut by its readers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/plan.hpp"

namespace roll::convert {

// InvalidArgument: a layout with stages or experts, or a tensor that the format has no name for.
Result<std::vector<Stored>> nemo_layout(const Source& source, const formats::McaConfig& config);

// megatron_NAME.yaml, and model_config.yaml, with which a tar of the directory is a .nemo.
Result<void> write_nemo_configs(const formats::McaConfig& config, const std::string& name,
                                const std::filesystem::path& directory);

}  // namespace roll::convert
