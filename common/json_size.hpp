// Bounds the length of a JSON text without writing the text.
#pragma once

#include <cstddef>
#include <string>

#include "common/json.hpp"

namespace roll {

// Return an upper bound of the number of bytes that dump() writes. The bound of a string is at most
// a few bytes too high.
std::size_t most_bytes(const std::string& text);
std::size_t most_bytes(const Json& value);

}  // namespace roll
