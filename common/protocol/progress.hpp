// Validates the progress reports of a job's program. A program may send anything; only reports
// within these limits are passed on.
#pragma once

#include <string_view>

#include "common/json.hpp"

namespace roll::protocol {

constexpr std::size_t kProgressBytesMax = 4096;  // maximum size of a program's own report
// The same for one with roll-worker's data per rank.
constexpr std::size_t kHeardBytesMax = 512u << 10;

// Parses a report, which is an object of at most 8 levels. Fails with Corrupt if the text is
// anything else, or larger than `bytes_max`.
Result<Json> read_progress(std::string_view text, std::size_t bytes_max);

}  // namespace roll::protocol
