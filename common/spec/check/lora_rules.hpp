// Checks train.lora. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"
#include "common/spec/train/lora.hpp"

namespace roll::spec {

// Returns a problem for each value in train.lora that LoRA training does not support. Also returns
// a problem for each key of another section that cannot be combined with LoRA. Ignores values of a
// wrong type, because the schema's checker reports them.
std::vector<Problem> lora_problems(const Json& document);

// Returns a problem if a linear layer in `lora` is not among the model's modules, or if the
// patterns fit no module. `names` are the full HuggingFace names of the model's modules.
std::vector<Problem> lora_target_problems(const LoraSpec& lora,
                                          const std::vector<std::string>& names);

}  // namespace roll::spec
