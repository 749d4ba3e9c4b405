// What a worker passes on of a running attempt's progress, for people. A worker is not trusted with
// rolld's life: what has not the shape that it should have is left out.
#pragma once

#include <string>

#include "common/json.hpp"

namespace roll::query {

struct Progress {
    Json told = Json::object();  // by its program, and of its GPUs
    Json ranks = Json::array();  // [{rank, node, step, own_ms}]
};
Progress read_progress(const std::string& text, const std::string& node);

}  // namespace roll::query
