// PEFT adapter directories: adapter_config.json and adapter_model.safetensors (or .bin).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/formats/hf.hpp"

namespace roll::formats {

// Roll's own key of adapter_config.json: directories of the adapters that were merged into the base
// model before this adapter was trained, in order. PEFT ignores this key.
inline constexpr const char* kBaseAdapters = "base_adapters";

// The LoRA of one module of the base model. The views point into the adapter's mapped file.
struct LoraModule {
    std::string module;     // name such as "model.layers.0.self_attn.q_proj"
    tensor::StridedView a;  // matrix A: [lora_rank, in]; for an embedding [lora_rank, vocabulary]
    tensor::StridedView b;  // matrix B: [out, lora_rank]; for an embedding [hidden, lora_rank]
    std::optional<tensor::StridedView> magnitude;  // DoRA's magnitude, [out]
    double scale = 0;
    bool embedding = false;
    bool transposed = false;     // true: the base weight is stored as [in, out]
    std::int64_t lora_rank = 0;  // rank r of a stacked module; 0 if unknown
    // parameter of a stacked module, if known: "…mlp.experts.gate_up_proj"
    std::string parameter = {};
};

struct Adapter {
    Json config;  // content of adapter_config.json
    std::vector<LoraModule> modules;
    // Modules of target_parameters. Each of them stacks all experts of a layer. A has shape
    // [experts * r, in], and B has shape [out, r * experts]. If a module has two such parameters,
    // the inner one is named "MODULE.base_layer".
    std::vector<LoraModule> stacked;
    // tensors of modules_to_save; info.name is the base tensor's name
    std::vector<tensor::StridedView> whole;
    HfFile file;
};

// Reads adapter_config.json. Fails with InvalidArgument if the file has a setting that Roll cannot
// merge; the message names the setting.
Result<Json> read_adapter_config(const std::filesystem::path& directory);

// Returns the value of a key of adapter_config.json. A key that is missing or null has PEFT's
// default.
Json adapter_setting(const Json& config, const std::string& key);

// Returns the LoRA rank of a module or parameter: the rank of a matching pattern or, if no pattern
// matches, the config's `r`.
double lora_rank(const Json& config, const std::string& module);

// Returns the factor by which a module's product B A is multiplied. The factor is alpha / r, or
// alpha / sqrt(r) with rsLoRA. Alpha is the value of a matching pattern or, if no pattern matches,
// the config's lora_alpha.
double lora_scale(const Json& config, const std::string& module, double lora_rank);

// Reads an adapter directory. Fails with InvalidArgument if the adapter's method is not LoRA, or if
// a merge could not reproduce a feature of the adapter. Fails with Corrupt if A or B is missing, or
// if their ranks differ.
Result<Adapter> read_adapter(const std::filesystem::path& directory);

}  // namespace roll::formats
