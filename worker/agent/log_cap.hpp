// Limits the size of a log while its program keeps appending to it.
#pragma once

#include <cstdint>
#include <string>

namespace roll::agent {

// If `file` exceeds `bytes_max`, removes its head so that about the newest half of `bytes_max`
// remains; truncates it to 0 if the volume cannot remove a file's head. Returns true if it was
// cut. `bytes_max` = 0: no limit.
bool cap_log(const std::string& file, std::int64_t bytes_max);

}  // namespace roll::agent
