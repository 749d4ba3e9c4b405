// XXH3-64 checksums of files and records. Not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace roll {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);

// A hash for maps with string keys that are also looked up by std::string_view.
struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return hash64(text); }
};

// Computes the hash of data that arrives in pieces. The result equals hash64() of the whole data.
class Hash64 {
  public:
    explicit Hash64(std::uint64_t seed = 0);
    ~Hash64();
    Hash64(const Hash64&) = delete;
    Hash64& operator=(const Hash64&) = delete;

    void add(std::span<const std::byte> bytes);
    std::uint64_t value() const;

  private:
    XXH3_state_s* state_;
};

// Returns 16 lower-case hex digits.
std::string to_hex(std::uint64_t value);

}  // namespace roll
