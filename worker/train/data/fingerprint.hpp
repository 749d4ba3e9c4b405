// What bytes are known by: a hash of samples, which costs the same for a terabyte, and of all.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace roll::data {

// How far a file has been read or made, in bytes, here or by the process that is waited for.
struct PrepareProgress {
    std::uint64_t done = 0;
    std::uint64_t size = 0;
};
// Asked now and then; false: stop here, to go on another time.
using GoOn = std::function<bool(const PrepareProgress&)>;

// XXH3-64 in hex of 64 blocks of 256 KiB, evenly from the first byte to the last, and of the size;
// of all bytes where there are no more than that. A change between the blocks is not seen.
std::string sample_hash(std::span<const std::byte> bytes);

// XXH3-64 in hex of all bytes; nullopt if `go_on` said no.
std::optional<std::string> whole_hash(std::span<const std::byte> bytes, const GoOn& go_on);

}  // namespace roll::data
