// Makes adapter_config.json for a converted adapter. The config has one rank and one alpha, and
// patterns for the modules with different values. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/adapter/adapter.hpp"

namespace roll::convert {

// Returns the config of an adapter that has LoRA for `modules` and saves the modules `whole`
// completely. Copies the keys of `from` that do not depend on module names. `all` lists the model's
// modules that can have LoRA. The config names a module by the last part of its name ("q_proj") if
// all modules of `all` with this last part have LoRA with the same rank and alpha. Otherwise, the
// config has the module's full name. `is_local` is true if a layer number means different layers on
// different ranks. A full name with a layer number is then ambiguous: fails with InvalidArgument if
// the config would need one.
Result<Json> adapter_config(const Json& from, const std::vector<NativeLora>& modules,
                            const std::vector<std::string>& whole,
                            const std::vector<std::string>& all, bool is_local);

// The modules that can have LoRA. As in target_modules of a PEFT config, each list has the last
// parts of the modules' native or HuggingFace names, sorted. `linear` lists the linear modules of
// the decoder layers, as "all-linear" does; the output layer is not included.
struct LoraTargets {
    std::vector<std::string> linear;
    std::vector<std::string> embedding;
    std::vector<std::string> router;
};
LoraTargets lora_targets(const std::vector<families::NativeTensor>& native, bool huggingface);

}  // namespace roll::convert
