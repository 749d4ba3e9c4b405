// Reads train.lora, or single keys of train.lora. Values of a wrong type count as missing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train/lora.hpp"

namespace roll::spec {

// Reads train.lora. Requires that lora_problems() is empty. If `json` is null, the result has no
// modules.
LoraSpec lora_spec(const Json& json);

// Returns true if the text is the last part of a linear layer's name, such as "q_proj", and
// contains no dot.
bool is_module_name(const std::string& text);

// Returns the names in a list of strings, or in a single string.
std::vector<std::string> names_in(const Json& json);

// Returns the targets of train.lora. The default is kAllLinear.
std::vector<std::string> targets_of(const Json& lora);

// Returns whether the targets select all modules named `name`.
bool is_target(const std::vector<std::string>& targets, std::string_view name);

// Returns true if the targets are one regular expression, as PEFT allows. This is the case if the
// value is a single text, but neither the last part of a linear layer's name nor "all-linear".
bool targets_match(const Json& lora);

// Returns the object at `key`; an empty object if there is none.
Json object_of(const Json& json, const char* key);

// Returns the number at `key`, or `otherwise` if there is none.
double number_or(const Json& json, std::string_view key, double otherwise);

}  // namespace roll::spec
