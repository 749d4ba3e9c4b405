// Keeps a log from growing for ever, while its program goes on appending to it.
#pragma once

#include <cstdint>
#include <string>

namespace roll::agent {

// Cuts a file that has grown beyond `bytes_max` down to about half of that, its newest lines; on a
// volume that cannot take a file's head away, to nothing. True if it was cut. 0: no limit.
bool cap_log(const std::string& file, std::int64_t bytes_max);

}  // namespace roll::agent
