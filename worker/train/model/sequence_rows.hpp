// How the rows of a micro-batch form sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/model/context.hpp"
#include "worker/train/model/experts.hpp"
#include "worker/train/model/row_split.hpp"
#include "worker/train/ops/values.hpp"

namespace roll::train {

// If there are pieces, all rows form one sequence, and the positions restart at each segment.
struct SequenceRows {
    std::int64_t positions = 0;
    ops::RopeTable rope;
    std::vector<ops::Piece> pieces;
    RowSplit rows = {};
    std::int64_t first_row = 0;  // same as Microbatch::first_row
    ContextGroup context = {};
    at::Tensor number_M = {};  // same as ContextRows::number_M
    Balance balance = {};      // only in training
};

// Makes the SequenceRows of micro-batches. Keeps the angles, and computes them again only if the
// length of the sequences changes.
class SequenceTable {
  public:
    // `rows`: the rows of this rank. `cp`: as in Chunk. `angles`: type and device of the angles.
    SequenceRows rows_of(const Microbatch& data, const spec::ModelConfig& config,
                         const RowSplit& rows, Communicator* cp, const at::TensorOptions& angles);

  private:
    ops::RopeTable at(const at::Tensor& position_M) const;

    ops::RopeTable rope_;
};

}  // namespace roll::train
