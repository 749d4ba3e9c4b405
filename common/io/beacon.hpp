// rolld's beacon: a file of two 512-byte records with a counter. A worker that has lost contact
// reads it to tell a dead rolld (the counter stands still) from a network partition (it grows).
//
// A record is JSON padded with spaces, followed by its checksum and a newline, so `cat` shows it.
// Writes alternate between the two records, in place: a crash during a write leaves the other one
// readable. Records contain no times. encode, decode and newest are pure. write and read block if
// the file system hangs, so do not call them from an event loop.
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
    std::string cluster;            // random id of the ledger, chosen at its creation
    std::uint64_t incarnation = 0;  // rolld's incarnation
    std::string nonce;              // random id of this rolld process
    std::string host;
    std::string endpoint;
    // Identifies the state directory, so that a copy of it differs; empty if unknown.
    std::string home{};
    std::uint64_t counter = 0;  // ticks that this incarnation has published
    // How long this rolld runs on while it cannot read this file, in ms; 0 means for ever.
    std::int64_t patience_ms = 0;
    friend bool operator==(const Beacon&, const Beacon&) = default;
};

// Returns exactly kBeaconRecordBytes. Fails with InvalidArgument if the fields do not fit.
Result<std::string> encode_beacon(const Beacon& beacon);

// Parses a record. Fails with Corrupt if the record is torn: wrong length, checksum or fields.
Result<Beacon> decode_beacon(std::string_view record);

// Returns the byte offset, within the file, of the record with this counter.
constexpr std::size_t beacon_offset(std::uint64_t counter) {
    return counter % 2 == 0 ? 0 : kBeaconRecordBytes;
}

// Returns the record with the higher (incarnation, counter). Fails with Corrupt if none is
// readable.
Result<Beacon> newest_beacon(std::string_view file);

// Writes one record at its offset and fsyncs it. Creates the file if it is missing.
Result<void> write_beacon(const std::filesystem::path& path, const Beacon& beacon);

// Reads the newest record. Bypasses the client's cache if the file system supports it (NFS).
Result<Beacon> read_beacon(const std::filesystem::path& path);

}  // namespace roll::io
