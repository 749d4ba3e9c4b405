// Parts that are specific to NeMo's checkpoints: a YAML file beside the weights, and tensor names
// that are older than Megatron core's names. The older names have separate tensors for gate and up.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/formats/mca.hpp"

namespace roll::formats {

struct NemoConfig {
    // order of attention rows; true: all rows of q, then all of k, then all of v (megatron_legacy)
    bool rows_by_part = false;
};

// Parses model_config.yaml, or a training config with a "model" part. `where` is the file's name in
// messages. Fails with Corrupt if the text is not YAML.
Result<NemoConfig> parse_nemo_config(const std::string& yaml, const std::string& where);

// The contents of a target's YAML files. `training` is a training config for trlX and NeMo 1.x that
// contains the model's name. `model` is the "model" part of `training`; an archive stores it as
// model_config.yaml.
struct NemoFiles {
    std::string training;
    std::string model;
};
NemoFiles nemo_configs(const McaConfig& config, const std::string& name);

// Returns the name of a native tensor in the layout of trlX's converter. Returns an empty name if
// that layout has no such tensor.
std::string nemo_name(const std::string& native);

// Returns true if the name ends in `.nemo`. Such a file is a tar archive of the checkpoint's files.
bool is_nemo_archive(const std::filesystem::path& path);

}  // namespace roll::formats
