// Finds lines of a log: the last lines, the lines since a time, or the lines that match a
// pattern. A log may have many gigabytes, so the functions read only the blocks that they
// need.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "cli/show/stored_file.hpp"
#include "common/time.hpp"

namespace roll::cli {

// Returns the time at the beginning of a line, such as "2026-11-21T10:00:00.5Z" or "[2026-11-21
// 10:00:00,500] step 3"; nullopt if the line does not begin with a time. A time without a zone is
// in the local zone.
std::optional<Time> time_of_line(std::string_view line);

// Finds the last `count` lines for which `takes` returns true. Returns the offset of the first of
// these lines; 0 if there are fewer such lines. A last line without a newline counts.
std::uint64_t offset_of_last(const StoredFile& file, std::uint64_t count,
                             const std::function<bool(std::string_view)>& takes);

// Returns the offset of the first line with a time of `since` or later. Returns the log's size if
// there is no such line, or if the log was last written before `since`. Returns nullopt if no line
// at the beginning of the log has a time. Requires that the times in the log ascend.
std::optional<std::uint64_t> offset_since(const StoredFile& file, Time since);

// Calls `visit` with each line until `visit` returns false. Starts at the offset `from`, which must
// be the beginning of a line. `whole` is false for a last line without a newline.
void each_line(const StoredFile& file, std::uint64_t from,
               const std::function<bool(std::string_view line, bool whole)>& visit);

}  // namespace roll::cli
