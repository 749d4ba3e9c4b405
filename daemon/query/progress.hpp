// Parses the progress of a running attempt reported by a worker, for display. Workers are not
// trusted: invalid parts are dropped.
#pragma once

#include <string>

#include "common/json.hpp"

namespace roll::query {

struct Progress {
    Json told = Json::object();  // reported by the program, with its GPU utilization
    Json ranks = Json::array();  // [{rank, node, step, own_ms}]
};
Progress read_progress(const std::string& text, const std::string& node);

}  // namespace roll::query
