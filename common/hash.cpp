#include "common/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

namespace roll {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
    return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

Hash64::Hash64(std::uint64_t seed) : state_(XXH3_createState()) {
    XXH3_64bits_reset_withSeed(state_, seed);
}

Hash64::~Hash64() { XXH3_freeState(state_); }

void Hash64::add(std::span<const std::byte> bytes) {
    XXH3_64bits_update(state_, bytes.data(), bytes.size());
}

std::uint64_t Hash64::value() const { return XXH3_64bits_digest(state_); }

std::string to_hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace roll
