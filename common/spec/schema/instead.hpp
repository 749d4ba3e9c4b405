// Advice for the user about a file whose type is not allowed for a key of the job file.
#pragma once

#include <optional>
#include <string>

#include "common/json.hpp"

namespace roll::spec {

// Returns the advice for files with the same filename extension as `file`; nullopt if there is
// none. The advice is in the field x-instead of the key's schema.
std::optional<std::string> instead_of(const OrderedJson& schema, const std::string& file);

}  // namespace roll::spec
