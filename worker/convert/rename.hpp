// Rules that rename or remove tensors by their names.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/error.hpp"

namespace roll::convert {

// Renames or removes the tensors whose names match the pattern `name`. Each * in `name` matches the
// shortest possible text. `to` is the new name. The n-th * in `to` stands for the text that the
// n-th * in `name` matched. If `to` is nullopt, the tensors are removed.
struct NameRule {
    std::string name;
    std::optional<std::string> to;
};

// Parses "OLD=NEW". Fails with InvalidArgument if the text has no =, or if OLD and NEW do not have
// equally many *.
Result<NameRule> parse_renaming(const std::string& text);

// Returns the new name of a tensor. Returns nullopt if the rule does not match `name`. Returns an
// empty string if the rule removes the tensor.
std::optional<std::string> renamed_by(const NameRule& rule, std::string_view name);

}  // namespace roll::convert
