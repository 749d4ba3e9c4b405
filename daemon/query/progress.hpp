// Parses the progress that a worker has reported for a running attempt. The progress is only
// displayed. Workers are not trusted, so invalid parts are dropped.
#pragma once

#include <cstdint>
#include <string>

#include "common/json.hpp"

namespace roll::query {

struct Progress {
    Json told = Json::object();  // report of the job's program, with the GPU utilization added
    Json ranks = Json::array();  // rows of {rank, node, step, own_ms}
    // Rows of {node, bytes, every_s, mebibytes}: the memory of the attempt's processes on a node in
    // bytes, and the curve of this memory over the attempt. Value i of `mebibytes` is the largest
    // memory in MiB from i * every_s to (i + 1) * every_s seconds after the start.
    Json memory = Json::array();
    std::int64_t cpu_ms = 0;  // processor time of the attempt's processes until now; 0: unknown
};
Progress read_progress(const std::string& text, const std::string& node);

// Adds a score to each rank: the shortest `own_ms` of all ranks divided by the rank's `own_ms`.
Json with_scores(Json ranks);

}  // namespace roll::query
