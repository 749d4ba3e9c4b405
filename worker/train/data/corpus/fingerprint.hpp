// Hashes that identify data. sample_hash() reads samples of a file, so its time does not grow with
// the file. whole_hash() reads all bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace roll::data {

// Progress of reading or writing a file of `size` bytes. `done` is the number of bytes that this
// process has read or written. If this process waits for another process that does the work, `done`
// is the number of bytes that the other process has written.
struct PrepareProgress {
    std::uint64_t done = 0;
    std::uint64_t size = 0;
};
// A function that is called regularly with the progress. If the function returns false, the work
// stops and can be resumed later.
using GoOn = std::function<bool(const PrepareProgress&)>;

// Returns the XXH3-64, in hex, of the size and of 64 evenly spaced blocks of 256 KiB. The blocks
// include the first and the last byte. Up to 16 MiB, the blocks cover all bytes. In a larger file,
// a change between two blocks does not change the hash.
std::string sample_hash(std::span<const std::byte> bytes);

// Returns the XXH3-64 of all bytes, in hex; nullopt if `go_on` returned false.
std::optional<std::string> whole_hash(std::span<const std::byte> bytes, const GoOn& go_on);

}  // namespace roll::data
