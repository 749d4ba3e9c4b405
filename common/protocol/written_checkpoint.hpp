// A checkpoint that a rank has written, as workers report it and launches list it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/ids.hpp"

namespace roll::protocol {

struct WrittenCheckpoint {
    std::int64_t step = 0;
    std::string directory;          // absolute path; its last part is the checkpoint's final name
    bool deleted = false;           // the retention rules have deleted the checkpoint
    std::optional<Token> writer{};  // token of the attempt that wrote the deleted checkpoint
    std::uint64_t asked = 0;        // number of the SaveOrder that this checkpoint answers; 0: none
    std::int64_t save_ms = 0;       // duration of the save in ms; 0 if unknown
    friend bool operator==(const WrittenCheckpoint&, const WrittenCheckpoint&) = default;
};

}  // namespace roll::protocol
