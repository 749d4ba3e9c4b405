// Searches the logs of a failed attempt for the job's patterns (retry.on_log).
#pragma once

#include <string>
#include <vector>

namespace roll::agent {

// Returns the indices of the patterns that match a line of these files, in ascending order. Reads
// only the end of each file and the beginning of each long line. An invalid pattern matches
// nothing.
std::vector<int> scan_logs(const std::vector<std::string>& patterns,
                           const std::vector<std::string>& files);

}  // namespace roll::agent
