// Makes adapter_config.json for a converted adapter: one rank and one alpha, with patterns for the
// modules that differ. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/adapter/adapter.hpp"

namespace roll::convert {

// Returns the config of an adapter with LoRA for `modules` and with the modules `whole` saved
// whole. Copies the keys of `from` that do not depend on module names. `all` lists the model's
// modules that can have LoRA. The last part of a name ("q_proj") stands for every module of `all`
// that ends in it. Such a last part is used only if LoRA, rank and alpha are the same for all these
// modules. `is_local` means that a layer number stands for different layers on different ranks.
// Fails with InvalidArgument if `is_local` and a name would need a layer number.
Result<Json> adapter_config(const Json& from, const std::vector<NativeLora>& modules,
                            const std::vector<std::string>& whole,
                            const std::vector<std::string>& all, bool is_local);

// The modules that can have LoRA, as target_modules names them: the sorted last parts of their
// native or HuggingFace names. `linear` lists the linear modules of the decoder layers, without the
// output layer ("all-linear").
struct LoraTargets {
    std::vector<std::string> linear;
    std::vector<std::string> embedding;
    std::vector<std::string> router;
};
LoraTargets lora_targets(const std::vector<families::NativeTensor>& native, bool huggingface);

}  // namespace roll::convert
