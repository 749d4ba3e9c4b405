// What is particular to NeMo's checkpoints: a YAML beside the weights, names from before Megatron's
// core with gate and up apart.
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

// Of model_config.yaml, or of a training config with a "model" in it. Corrupt: not YAML.
Result<NemoConfig> parse_nemo_config(const std::string& yaml, const std::string& where);

// A training config that trlX and NeMo 1.x start from, `name` in it; and its "model" alone, which
// is the model_config.yaml of an archive.
struct NemoFiles {
    std::string training;
    std::string model;
};
NemoFiles nemo_configs(const McaConfig& config, const std::string& name);

// A native name in the layout of trlX's converter; empty if that has none.
std::string nemo_name(const std::string& native);

// By its name: a `.nemo` is a tar of the files.
bool is_nemo_archive(const std::filesystem::path& path);

}  // namespace roll::formats
