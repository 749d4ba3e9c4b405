// Parts specific to NeMo's checkpoints: a YAML file beside the weights, and names older than
// Megatron core's, with gate and up apart.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/formats/mca.hpp"

namespace roll::formats {

struct NemoConfig {
    bool rows_by_part = false;  // megatron_legacy: all queries, then all keys, then all values
};

// Parses model_config.yaml, or a training config with a "model" in it. Fails with Corrupt if it is
// not YAML.
Result<NemoConfig> parse_nemo_config(const std::string& yaml, const std::string& where);

// `training` is a training config for trlX and NeMo 1.x, with `name` in it. `model` is only its
// "model" part: the model_config.yaml of an archive.
struct NemoFiles {
    std::string training;
    std::string model;
};
NemoFiles nemo_configs(const McaConfig& config, const std::string& name);

// Returns a native name's spelling in the layout of trlX's converter; empty if it has none.
std::string nemo_name(const std::string& native);

// True if the name ends in `.nemo`: such a file is a tar of the checkpoint's files.
bool is_nemo_archive(const std::filesystem::path& path);

}  // namespace roll::formats
