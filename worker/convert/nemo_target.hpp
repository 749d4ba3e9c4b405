// Writes the layout of trlX's converter: model_weights.ckpt, or mp_rank_TT/model_weights.ckpt, and
// the training config in YAML. Its readers split pipelines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/plan.hpp"

namespace roll::convert {

// Fails with InvalidArgument for a layout with stages or experts, or a tensor without a name in the
// format.
Result<std::vector<Stored>> nemo_layout(const Source& source, const formats::McaConfig& config);

// Writes megatron_NAME.yaml and model_config.yaml; a tar of the directory is then a .nemo.
Result<void> write_nemo_configs(const formats::McaConfig& config, const std::string& name,
                                const std::filesystem::path& directory);

}  // namespace roll::convert
