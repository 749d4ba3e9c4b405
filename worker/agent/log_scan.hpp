// What a job's patterns (retry.on_log) find in the logs of an attempt that ended badly.
#pragma once

#include <string>
#include <vector>

namespace roll::agent {

// The indices of the patterns that occur in a line of these files, ascending. Read is the end of
// each file only, and of a long line its beginning; a pattern that is none finds nothing.
std::vector<int> scan_logs(const std::vector<std::string>& patterns,
                           const std::vector<std::string>& files);

}  // namespace roll::agent
