// An event as the ledger stores it and rollctl displays it: its number, time, kind, and fields as a
// JSON object.
#pragma once

#include <cstdint>
#include <string>

#include "common/time.hpp"

namespace roll::core {

struct Row {
    std::int64_t seq = 0;
    Time at{};
    std::string kind;
    std::string body;
};

}  // namespace roll::core
