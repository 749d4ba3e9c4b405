// rolld's beacon: a file of two 512-byte records with a counter. A worker that has lost contact
// with rolld reads the file. If the counter still grows, rolld runs and the network is partitioned;
// otherwise rolld is dead.
//
// A record is JSON padded with spaces, followed by its checksum and a newline, so `cat` shows it.
// Writes alternate between the two records, in place. A crash during a write therefore leaves the
// other record readable. Records contain no times.
//
// encode_beacon, decode_beacon and newest_beacon are pure. write_beacon and read_beacon block if
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
    std::uint64_t incarnation = 0;  // the incarnation of the rolld that wrote the record
    std::string nonce;              // random id of this rolld process
    std::string host;
    std::string endpoint;
    // Identifies the state directory; empty: unknown. A copy of the directory has another
    // value.
    std::string home{};
    std::uint64_t counter = 0;  // number of records that this incarnation has published
    // Time in ms for which rolld keeps running although rolld cannot read its own beacon file; 0:
    // for ever.
    std::int64_t patience_ms = 0;
    friend bool operator==(const Beacon&, const Beacon&) = default;
};

// Returns a record of exactly kBeaconRecordBytes. Fails with InvalidArgument if the fields do not
// fit.
Result<std::string> encode_beacon(const Beacon& beacon);

// Parses a record. Fails with Corrupt if the length, the checksum or a field is wrong, for example
// after an interrupted write.
Result<Beacon> decode_beacon(std::string_view record);

// Returns the byte offset, within the file, of the record with this counter.
constexpr std::size_t beacon_offset(std::uint64_t counter) {
    return counter % 2 == 0 ? 0 : kBeaconRecordBytes;
}

// Returns the newer of the file's two records: the record with the higher pair (incarnation,
// counter). Fails with Corrupt if neither record is readable.
Result<Beacon> newest_beacon(std::string_view file);

// Writes the record at its offset and fsyncs the file. Creates the file if it is missing.
Result<void> write_beacon(const std::filesystem::path& path, const Beacon& beacon);

// Reads the newest record. Bypasses the cache of a network file system (NFS) if possible.
Result<Beacon> read_beacon(const std::filesystem::path& path);

}  // namespace roll::io
