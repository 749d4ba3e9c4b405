// rolld's beacon: one file of two 512-byte records, by which a worker that hears nothing can tell a
// rolld that is dead (the counter stands still) from one that it is cut off from (the counter
// grows).
//
// A record is JSON padded with spaces and closed by its checksum and a newline, so `cat` shows it.
// Records are written in place and in turn: a crash in mid-write leaves the other one readable. No
// times in it. encode, decode and newest are pure; write and read block on the volume, and must not
// be called from a loop that a hung volume may not stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/error.hpp"

namespace roll::io {

constexpr std::size_t kBeaconRecordBytes = 512;
constexpr std::size_t kBeaconFileBytes = 2 * kBeaconRecordBytes;

struct Beacon {
    std::string cluster;            // which ledger: drawn once, when it was made
    std::uint64_t incarnation = 0;  // of rolld
    std::string nonce;              // of this rolld process
    std::string host;
    std::string endpoint;
    std::string home{};         // names the state directory, not a copy of it; empty: not known
    std::uint64_t counter = 0;  // beats published by this incarnation
    // How long this rolld would go on without reading this file; 0: for ever.
    std::int64_t patience_ms = 0;
    friend bool operator==(const Beacon&, const Beacon&) = default;
};

// Exactly kBeaconRecordBytes. InvalidArgument if the names are too long for a record.
Result<std::string> encode_beacon(const Beacon& beacon);

// Corrupt if the record is torn: another length, checksum or shape.
Result<Beacon> decode_beacon(std::string_view record);

// Where the record with this counter lies in the file, in bytes.
constexpr std::size_t beacon_offset(std::uint64_t counter) {
    return counter % 2 == 0 ? 0 : kBeaconRecordBytes;
}

// The later of a file's records by (incarnation, counter). Corrupt if none is readable.
Result<Beacon> newest_beacon(std::string_view file);

// Writes one record into its slot and syncs it; makes the file if it is missing.
Result<void> write_beacon(const std::filesystem::path& path, const Beacon& beacon);

// Opens the file anew and asks the server, not a cache, where the file system can do that.
Result<Beacon> read_beacon(const std::filesystem::path& path);

}  // namespace roll::io
