// Base64 (RFC 4648) with padding, for bytes inside JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace roll {

std::string to_base64(std::string_view bytes);

// Returns the bytes; nullopt if the text is not base64, or if bits are left over after the last
// byte and are not 0. The padding may be missing.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace roll
