// Parses the progress that a worker has reported for a running attempt. The progress is only
// displayed. Workers are not trusted, so invalid parts are dropped.
#pragma once

#include <string>

#include "common/json.hpp"

namespace roll::query {

struct Progress {
    Json told = Json::object();  // the program's report, with the GPU utilization added
    Json ranks = Json::array();  // rows of {rank, node, step, own_ms}
};
Progress read_progress(const std::string& text, const std::string& node);

}  // namespace roll::query
