// An event as the ledger holds it and as people read it: its place in the order, its time, its kind
// and its fields as a JSON object.
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
