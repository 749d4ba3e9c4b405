#include <algorithm>

#include <fmt/format.h>

#include "cli/foreign/parts.hpp"
#include "common/split.hpp"

namespace roll::cli {
namespace {

bool is_automatic(const Json& value) { return value.is_null() || value == "auto"; }

// Returns a JSON object: the value of `key`, or the content of the file that the value names.
// Returns nullopt if there is no such object, or if the file cannot be read.
std::optional<Json> object_at(const Config& config, const std::string& key) {
    if (!config.has(key)) return std::nullopt;
    if (config.keys[key].is_object()) return config.keys[key];
    const auto name = config.text(key);
    if (!name) return std::nullopt;
    return config.object_in(config.absolute(*name), key);
}

// Refuses a number of DeepSpeed's configuration that differs from `own`, the value of `key`.
void check_number(const Config& config, const Json& deepspeed, const char* name, const char* key,
                  double own) {
    const Json value = deepspeed.value(name, Json());
    if (is_automatic(value) || (value.is_number() && value.get<double>() == own)) return;
    config.refuse("deepspeed", fmt::format("has {} {}, but {} is {}; write \"auto\" for {}", name,
                                           dump(value), key, own, name));
}

// Refuses a precision that DeepSpeed's configuration enables and the foreign configuration does
// not. Requires that train.precision is set.
void check_precision(const Config& config, const Json& deepspeed, const char* name) {
    const Json section = deepspeed.value(name, Json());
    if (!section.is_object() || section.value("enabled", Json()) != true) return;
    if (config.document[Json::json_pointer("/train/precision")] != name)
        config.refuse("deepspeed",
                      fmt::format("enables {0}; set {0}: true in this file as well", name));
}

// Returns the stage of ZeRO in DeepSpeed's configuration. Refuses settings that would change the
// training.
int deepspeed_stage(const Config& config, const Json& deepspeed) {
    check_number(config, deepspeed, "gradient_clipping", "max_grad_norm",
                 config.number("max_grad_norm").value_or(1));
    check_number(config, deepspeed, "gradient_accumulation_steps", "gradient_accumulation_steps",
                 config.number("gradient_accumulation_steps").value_or(1));
    check_number(config, deepspeed, "train_micro_batch_size_per_gpu", "per_device_train_batch_size",
                 config.number("per_device_train_batch_size").value_or(8));
    for (const char* const name : {"bf16", "fp16"}) check_precision(config, deepspeed, name);
    for (const auto& [section, key] :
         {std::pair("optimizer", "optim"), {"scheduler", "lr_scheduler_type"}})
        if (deepspeed.contains(section))
            config.refuse("deepspeed", fmt::format("has {0}; remove {0} and set {1} in this file",
                                                   section, key));
    const Json zero = deepspeed.value("zero_optimization", Json::object());
    const Json stage = zero.is_object() ? zero.value("stage", Json(0)) : zero;
    if (stage.is_number_integer() && stage >= 0 && stage <= 3) return stage;
    config.refuse("deepspeed",
                  fmt::format("has zero_optimization.stage {}; allowed: 0 to 3", dump(stage)));
    return 0;
}

// Returns the stage of ZeRO that shards the same tensors as the configured mode of PyTorch's FSDP.
int fsdp_stage(const Config& config) {
    const Json value = config.keys.value("fsdp", Json());
    const std::optional<Json> options = object_at(config, "fsdp_config");
    const Json frees = options ? options->value("reshard_after_forward", Json()) : Json();
    const int whole = frees == false || frees == "false" ? 2 : 3;
    if (value.is_null() || value.is_boolean()) return value == true ? whole : 0;
    std::vector<std::string> names;
    for (const std::string& text : config.names("fsdp"))
        for (std::string& name : words_at(text, ' ')) names.push_back(std::move(name));
    int stage = 0;
    for (const std::string& name : names) {
        if (name == "full_shard" || name == "hybrid_shard")
            stage = whole;
        else if (name == "shard_grad_op" || name == "hybrid_shard_zero2")
            stage = 2;
        else if (name != "no_shard" && name != "auto_wrap" && name != "offload")
            config.refuse("fsdp", fmt::format("is {}; supported: full_shard, shard_grad_op, "
                                              "hybrid_shard, hybrid_shard_zero2, no_shard, "
                                              "auto_wrap, offload",
                                              dump(value)));
    }
    return stage;
}

}  // namespace

void read_sharding(const Config& config) {
    int stage = config.flag("use_distributed_optimizer") ? 1 : 0;
    if (const auto deepspeed = object_at(config, "deepspeed"))
        stage = std::max(stage, deepspeed_stage(config, *deepspeed));
    stage = std::max(stage, fsdp_stage(config));
    if (stage > 0) config.set("parallel.zero", stage);
}

}  // namespace roll::cli
