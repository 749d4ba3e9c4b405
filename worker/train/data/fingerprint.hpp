// Hashes that identify data: of samples, at constant cost even for a terabyte, and of all bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace roll::data {

// Bytes of a file read or written so far, by this process or the one that it waits for.
struct PrepareProgress {
    std::uint64_t done = 0;
    std::uint64_t size = 0;
};
// Called now and then; returns false to stop (the work can be resumed later).
using GoOn = std::function<bool(const PrepareProgress&)>;

// Returns XXH3-64, in hex, of 64 evenly spaced blocks of 256 KiB, from the first byte to the last,
// and of the size; for files of at most 16 MiB, of all bytes. A change between the blocks is not
// detected.
std::string sample_hash(std::span<const std::byte> bytes);

// Returns XXH3-64 of all bytes in hex; nullopt if `go_on` returned false.
std::optional<std::string> whole_hash(std::span<const std::byte> bytes, const GoOn& go_on);

}  // namespace roll::data
