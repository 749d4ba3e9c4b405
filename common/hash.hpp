// XXH3-64: checksums of files and records. Not a signature.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace roll {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);

// Sixteen lower-case hex digits.
std::string to_hex(std::uint64_t value);

}  // namespace roll
