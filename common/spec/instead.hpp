// Tells the user what to do with a file whose type a key does not allow.
#pragma once

#include <optional>
#include <string>

#include "common/json.hpp"

namespace roll::spec {

// Returns the sentence of the key's x-instead for the ending of the file's name; nullopt if there
// is none.
std::optional<std::string> instead_of(const OrderedJson& schema, const std::string& file);

}  // namespace roll::spec
