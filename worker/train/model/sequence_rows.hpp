// How the rows of a micro-batch form sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/train/model/row_split.hpp"
#include "worker/train/ops/values.hpp"

namespace roll::train {

// If there are segments, all rows form one sequence, and the positions restart at each segment.
struct SequenceRows {
    std::int64_t positions = 0;
    ops::RopeTable rope;
    std::vector<std::int64_t> segments;
    RowSplit rows = {};
    std::int64_t first_row = 0;  // same as Microbatch::first_row
};

}  // namespace roll::train
