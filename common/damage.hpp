// The hint of an error about a file that is damaged, incomplete or missing.
#pragma once

namespace roll {

inline constexpr const char* kCopyAgain =
    "copy the file again from its source, or use an earlier checkpoint";

}  // namespace roll
