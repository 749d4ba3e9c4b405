// Limits the size of a log while its program keeps appending to it.
#pragma once

#include <cstdint>
#include <string>

namespace roll::agent {

// Limits the size of a log file. If `file` exceeds `bytes_max`, removes the file's beginning. The
// newest bytes remain: about half of `bytes_max`. Truncates the file to 0 bytes if the volume
// cannot remove a file's beginning. Returns true if the file was cut. `bytes_max` 0 means no limit.
bool cap_log(const std::string& file, std::int64_t bytes_max);

}  // namespace roll::agent
