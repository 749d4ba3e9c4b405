// Durations, instants and sizes as people write them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "common/error.hpp"
#include "common/time.hpp"

namespace roll::spec {

// "90s", "1h 30m", "1.5d", "HH:MM:SS", "D-HH", "D-HH:MM", "D-HH:MM:SS". A number without a unit is
// refused: to Slurm it is minutes, to most other programs seconds.
Result<std::chrono::seconds> parse_duration(std::string_view text);

// ISO-8601 with its zone: "2026-11-22T08:00:00Z", "2026-11-22T08:00+01:00"; "2026-11-22" is its
// first instant in UTC.
Result<Time> parse_instant(std::string_view text);

// Bytes: "512MiB" (1024s), "5GB" (1000s), "100".
Result<std::uint64_t> parse_size(std::string_view text);

}  // namespace roll::spec
