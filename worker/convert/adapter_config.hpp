// adapter_config.json of a converted adapter: one rank and alpha, and patterns for modules that
// differ. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/adapter.hpp"

namespace roll::convert {

// `from` keeps what does not depend on names. `all` are the model's modules that LoRA could be of:
// a last word ("q_proj") stands for all modules of it, if all have the same. `is_local`: names with
// a layer's number would mean different layers on different ranks, and are InvalidArgument.
Result<Json> adapter_config(const Json& from, const std::vector<NativeLora>& modules,
                            const std::vector<std::string>& whole,
                            const std::vector<std::string>& all, bool is_local);

// The modules that LoRA can be of, as an adapter's target_modules name them: last words, sorted.
// Linear ones are those of the decoder's layers ("all-linear": no output layer), natively or of the
// HuggingFace model.
struct LoraTargets {
    std::vector<std::string> linear;
    std::vector<std::string> embedding;
    std::vector<std::string> router;
};
LoraTargets lora_targets(const std::vector<families::NativeTensor>& native, bool huggingface);

}  // namespace roll::convert
