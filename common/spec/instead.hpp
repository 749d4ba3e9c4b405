// Tells the user how to replace a file whose type a key does not allow.
#pragma once

#include <optional>
#include <string>

#include "common/json.hpp"

namespace roll::spec {

// Returns the advice in the key's x-instead for files with this ending; nullopt if there is
// none.
std::optional<std::string> instead_of(const OrderedJson& schema, const std::string& file);

}  // namespace roll::spec
