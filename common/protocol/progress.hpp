// Checks the progress reports of a job's program. A program may send anything, but roll-worker
// passes on only reports within these limits.
#pragma once

#include <string_view>

#include "common/json.hpp"

namespace roll::protocol {

constexpr std::size_t kProgressBytesMax = 4096;  // maximum size of a report from the program
// Maximum size of a report that roll-worker sends to rolld. The report consists of the program's
// report and of roll-worker's measurements of each rank.
constexpr std::size_t kHeardBytesMax = 512u << 10;

// Parses a report: a JSON object of at most 8 levels. Fails with Corrupt if the text is not such an
// object, or is larger than `bytes_max`.
Result<Json> read_progress(std::string_view text, std::size_t bytes_max);

}  // namespace roll::protocol
