#include "cli/foreign_optimizer.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

namespace roll::cli {
namespace {

// The values of `optim` that Roll has, with the kind of the optimizer. Paged and fused ones differ
// in memory and speed only.
constexpr std::array<std::pair<const char*, const char*>, 8> kOptimizers{
    {{"adamw_torch", "adamw"},
     {"adamw_torch_fused", "adamw"},
     {"adamw_hf", "adamw"},
     {"adamw_apex_fused", "adamw"},
     {"paged_adamw_32bit", "adamw"},
     {"sgd", "sgd"},
     {"lion_32bit", "lion"},
     {"paged_lion_32bit", "lion"}}};

std::string listed_optimizers() {
    std::string list;
    for (const auto& [name, kind] : kOptimizers)
        list += (list.empty() ? "" : ", ") + std::string(name);
    return list;
}

}  // namespace

void read_optimizer(const Config& config) {
    const std::string named = config.text("optim").value_or("adamw_torch");
    const char* kind = nullptr;
    for (const auto& [name, own] : kOptimizers)
        if (named == name) kind = own;
    if (kind == nullptr)
        return config.refuse("optim",
                             fmt::format("is {}; supported: {}", named, listed_optimizers()));
    if (config.has("optim")) config.set("train.optimizer.kind", kind);
    if (!config.flag("use_muon")) return;
    // LLaMA-Factory's Muon scales updates as Moonlight does.
    config.set("train.optimizer.kind", "muon");
    config.set("train.optimizer.update_scale", "match_rms_adamw");
}

void read_lora(const Config& config) {
    const auto set_or = [&](const char* key, const char* path, const Json& usual) {
        config.has(key) ? config.set(path, config.keys[key]) : config.set_default(key, path, usual);
    };
    const std::int64_t r = holds<std::int64_t>(config.keys.value("lora_rank", Json()))
                               ? config.keys["lora_rank"].get<std::int64_t>()
                               : 8;
    set_or("lora_rank", "train.lora.r", r);
    set_or("lora_alpha", "train.lora.alpha", 2 * r);
    const std::vector<std::string> targets = config.names("lora_target");
    if (targets.empty())
        config.set_default("lora_target", "train.lora.targets", "all-linear");
    else
        config.set("train.lora.targets",
                   targets == std::vector<std::string>{"all"} ? Json("all-linear") : Json(targets));
    if (config.has("lora_dropout")) config.set("train.lora.dropout", config.keys["lora_dropout"]);
    if (config.has("loraplus_lr_ratio"))
        config.set("train.lora.lr_ratio", config.keys["loraplus_lr_ratio"]);
    if (const auto names = config.names("additional_target"); !names.empty())
        config.set("train.lora.modules_to_save", names);
    if (config.flag("use_rslora")) config.set("train.lora.rslora", true);
    if (config.flag("use_dora")) config.set("train.lora.dora", true);
}

}  // namespace roll::cli
