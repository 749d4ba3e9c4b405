// Context parallelism: the rows of a micro-batch that one rank of a context-parallel group has.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/train/ops/attention.hpp"

namespace roll::train {

// The whole rows are the rows of all ranks together: all sequences, one after the other. Each
// sequence has padding at its end, so that all ranks have equally many rows.
struct ContextRows {
    std::int64_t positions = 0;  // length of the sequences without padding
    // For each row of each rank, rank after rank: its index among the whole rows; int64 [ranks M],
    // on the CPU
    at::Tensor row_W = {};
    // The position of each of this rank's rows within its segment; int64 [M], on the CPU
    at::Tensor position_M = {};
    // The attention of this rank's rows. Piece::query is an index among this rank's rows, and
    // Piece::key is an index among the whole rows.
    std::vector<ops::Piece> pieces = {};
    // For each of this rank's rows, its number in a micro-batch that is not divided and has no
    // padding; int64 [M], on the CPU. A padding row has the number of the last row of its sequence.
    at::Tensor number_M = {};
};

}  // namespace roll::train
