// Hashes that identify data: a hash of samples, which takes constant time even for a terabyte, and
// a hash of all bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace roll::data {

// Progress in a file: number of bytes read or written so far, by this process or by the process for
// which it waits.
struct PrepareProgress {
    std::uint64_t done = 0;
    std::uint64_t size = 0;
};
// Called now and then with the progress. Returns false to stop; the work can be resumed later.
using GoOn = std::function<bool(const PrepareProgress&)>;

// Returns XXH3-64, in hex, of the size and of 64 evenly spaced blocks of 256 KiB, which include the
// first and the last byte. For files of at most 16 MiB it covers all bytes; in larger ones a change
// between the blocks is not detected.
std::string sample_hash(std::span<const std::byte> bytes);

// Returns XXH3-64 of all bytes, in hex; nullopt if `go_on` returned false.
std::optional<std::string> whole_hash(std::span<const std::byte> bytes, const GoOn& go_on);

}  // namespace roll::data
