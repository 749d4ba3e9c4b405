// Validates the progress reports of a job's program. A program may send anything; only reports
// within these limits are passed on.
#pragma once

#include <string_view>

#include "common/json.hpp"

namespace roll::protocol {

constexpr std::size_t kProgressBytesMax = 4096;     // a program's own report
constexpr std::size_t kHeardBytesMax = 512u << 10;  // a report with roll-worker's data per rank

// Parses an object of at most 8 levels. Fails with Corrupt if it is anything else, or larger than
// `bytes_max`.
Result<Json> read_progress(std::string_view text, std::size_t bytes_max);

}  // namespace roll::protocol
