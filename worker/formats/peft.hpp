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

// What LoRA does to one module of the base model. Views are of the adapter's file.
struct LoraModule {
    std::string module;     // "model.layers.0.self_attn.q_proj"
    tensor::StridedView a;  // [lora_rank, in]; of an embedding [lora_rank, vocabulary]
    tensor::StridedView b;  // [out, lora_rank]; of an embedding [hidden, lora_rank]
    std::optional<tensor::StridedView> magnitude;  // DoRA: [out]
    double scale = 0;
    bool embedding = false;
    bool transposed = false;     // the base weight is [in, out]
    std::int64_t lora_rank = 0;  // of a stacked module, where known
    std::string parameter = {};  // of a stacked module, where known: "…mlp.experts.gate_up_proj"
};

struct Adapter {
    Json config;  // adapter_config.json
    std::vector<LoraModule> modules;
    // Of target_parameters, which hold all experts of a layer: A [experts * r, in] and
    // B [out, r * experts]. Of two on one module the inner is named "MODULE.base_layer".
    std::vector<LoraModule> stacked;
    std::vector<tensor::StridedView> whole;  // modules_to_save; info.name is the base tensor's
    HfFile file;
};

// adapter_config.json of a directory. InvalidArgument names what of it we do not merge.
Result<Json> read_adapter_config(const std::filesystem::path& directory);

// The rank that the config gives a module (or a parameter), by its patterns.
double lora_rank(const Json& config, const std::string& module);

// What a module's B A is multiplied with: alpha / r, or with rsLoRA alpha / sqrt(r); alpha by the
// config's patterns.
double lora_scale(const Json& config, const std::string& module, double lora_rank);

// InvalidArgument names what we do not merge: another method than LoRA, or a feature of it that
// would change the result. Corrupt: a half of a pair is missing, or ranks disagree.
Result<Adapter> read_adapter(const std::filesystem::path& directory);

}  // namespace roll::formats
