// Parts specific to NeMo's checkpoints: a YAML file beside the weights, and tensor names older than
// Megatron core's. The older names have separate tensors for gate and up.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/formats/mca.hpp"

namespace roll::formats {

struct NemoConfig {
    // order of attention rows: all q, then all k, all v (megatron_legacy)
    bool rows_by_part = false;
};

// Parses model_config.yaml, or a training config with a "model" part. `where` names the file in
// messages. Fails with Corrupt if the text is not YAML.
Result<NemoConfig> parse_nemo_config(const std::string& yaml, const std::string& where);

// The texts of a target's YAML files. `training` is a training config for trlX and NeMo 1.x, which
// contains the model's name. `model` is the "model" part of `training`, which is the
// model_config.yaml of an archive.
struct NemoFiles {
    std::string training;
    std::string model;
};
NemoFiles nemo_configs(const McaConfig& config, const std::string& name);

// Returns the name of a native tensor in the layout of trlX's converter; empty if that layout has
// no such tensor.
std::string nemo_name(const std::string& native);

// Returns whether the name ends in `.nemo`. Such a file is a tar of the checkpoint's files.
bool is_nemo_archive(const std::filesystem::path& path);

}  // namespace roll::formats
