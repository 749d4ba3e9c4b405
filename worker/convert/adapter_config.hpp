// adapter_config.json of a converted adapter: one rank and one alpha, with patterns for the modules
// that differ. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/adapter.hpp"

namespace roll::convert {

// Copies the keys of `from` that do not depend on names. `all` lists the model's modules that can
// have LoRA: a last word ("q_proj") names every module that ends in it, so it is used only if all
// of them have the same value. With `is_local`, a layer number means different layers on different
// ranks; fails with InvalidArgument if a name would need one.
Result<Json> adapter_config(const Json& from, const std::vector<NativeLora>& modules,
                            const std::vector<std::string>& whole,
                            const std::vector<std::string>& all, bool is_local);

// The modules that can have LoRA, as target_modules names them: sorted last words. `linear` covers
// the decoder layers without the output layer ("all-linear"). Names are native or HuggingFace's.
struct LoraTargets {
    std::vector<std::string> linear;
    std::vector<std::string> embedding;
    std::vector<std::string> router;
};
LoraTargets lora_targets(const std::vector<families::NativeTensor>& native, bool huggingface);

}  // namespace roll::convert
