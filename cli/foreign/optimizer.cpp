#include <array>
#include <utility>

#include <fmt/format.h>

#include "cli/foreign/parts.hpp"

namespace roll::cli {
namespace {

// Maps each value of `optim` that Roll supports to the kind of the optimizer. Paged and fused
// optimizers differ from the plain optimizers only in memory and speed.
constexpr std::array<std::pair<const char*, const char*>, 12> kOptimizers{
    {{"adamw_torch", "adamw"},
     {"adamw_torch_fused", "adamw"},
     {"adamw_hf", "adamw"},
     {"adamw_apex_fused", "adamw"},
     {"paged_adamw_32bit", "adamw"},
     {"sgd", "sgd"},
     {"adafactor", "adafactor"},
     {"adamw_8bit", "adamw_8bit"},
     {"adamw_bnb_8bit", "adamw_8bit"},
     {"paged_adamw_8bit", "adamw_8bit"},
     {"lion_32bit", "lion"},
     {"paged_lion_32bit", "lion"}}};

std::string listed_optimizers() {
    std::string list;
    for (const auto& [name, kind] : kOptimizers)
        list += (list.empty() ? "" : ", ") + std::string(name);
    return list;
}

// Megatron offloads the activations of at most all layers but one, and by default of no layer. Roll
// offloads the activations of all layers, which changes the memory and not the results.
void read_activation_offload(const Config& config) {
    const bool some =
        config.flag("cpu_offloading") &&
        config.number("cpu_offloading_num_layers").value_or(0) > 0 &&
        (!config.has("cpu_offloading_activations") || config.flag("cpu_offloading_activations"));
    if (some || config.flag("activation_offloading"))
        config.set("train.activation_offload", "saved");
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
    // LLaMA-Factory's Muon scales updates as `match_rms_adamw` does.
    config.set("train.optimizer.kind", "muon");
    config.set("train.optimizer.update_scale", "match_rms_adamw");
}

// If optimizer_offload_fraction is not set, the whole state is offloaded, as with Megatron's own
// arguments. The default of mcore_adapter is 0, but optimizer_cpu_offload would then have no
// effect.
void read_offload(const Config& config) {
    read_activation_offload(config);
    const double fraction = config.number("optimizer_offload_fraction").value_or(1);
    if (!config.flag("optimizer_cpu_offload") || fraction == 0) return;
    config.set("train.optimizer.offload", "state");
    if (fraction != 1) config.set("train.optimizer.offload_fraction", fraction);
}

}  // namespace roll::cli
