// Parses durations, times and sizes as people write them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "common/time.hpp"

namespace roll::spec {

// Parses "90s", "1h 30m", "1.5d", "HH:MM:SS", "D-HH", "D-HH:MM" or "D-HH:MM:SS". Rejects a number
// without a unit, because Slurm reads such a number as minutes, and most other programs read it as
// seconds.
Result<std::chrono::seconds> parse_duration(std::string_view text);

// Parses an ISO-8601 time with a zone, such as "2026-11-22T08:00:00Z" or "2026-11-22T08:00+01:00".
// A date without a time, such as "2026-11-22", means midnight UTC.
Result<Time> parse_instant(std::string_view text);

// Parses a number of bytes, such as "100", "512MiB" or "5GB". Units such as MiB, and Slurm's units
// such as M, are powers of 1024. Units such as MB are powers of 1000.
Result<std::uint64_t> parse_size(std::string_view text);

// Returns a number of bytes with one decimal at most, as "3.9 GiB", "512 MiB" or "0".
std::string size_text(std::int64_t bytes);

}  // namespace roll::spec
