// SHA-256 of bytes.
#pragma once

#include <string>
#include <string_view>

namespace roll::io {

// Returns 64 lower-case hex digits.
std::string sha256(std::string_view bytes);

}  // namespace roll::io
