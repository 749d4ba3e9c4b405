// A model that a training exported at one of its checkpoints, as workers report it.
#pragma once

#include <cstdint>
#include <string>

namespace roll::protocol {

struct WrittenExport {
    std::int64_t step = 0;    // step of the exported checkpoint
    std::string directory;    // absolute path of the complete export
    std::int64_t oldest = 0;  // exports of steps below this step are deleted
    friend bool operator==(const WrittenExport&, const WrittenExport&) = default;
};

}  // namespace roll::protocol
