// Sequence parallelism: outside of the linear layers, each rank of a tensor-parallel group holds a
// range of consecutive rows of a micro-batch's M rows.
//
// Each rank has S = ceil(M / ranks) rows. The last rows of the last ranks may be padding. No other
// row depends on a padding row, and the gradients of padding rows are 0.
#pragma once

#include <cstdint>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/ops/values.hpp"

namespace roll::train {

struct RowSplit {
    Communicator* tp = nullptr;  // null: each rank has all rows
    std::int64_t rows = 0;       // number of rows M of the micro-batch

    bool is_split() const { return tp != nullptr; }
    std::int64_t rows_per_rank() const {
        return is_split() ? (rows + tp->size() - 1) / tp->size() : rows;
    }
};

// Returns a rank's rows [S, X] of a tensor [M, X] that each rank has whole. Padding rows are
// zeros.
at::Tensor take_rows(const RowSplit& split, const at::Tensor& whole_MX);

// A tensor that the ranks are exchanging. finish() waits for the exchange and returns the result.
// Call finish() only once.
struct PendingRows {
    Communicator& tp;
    Communicator::Ticket ticket;
    at::Tensor rows;   // the result of the exchange
    at::Tensor other;  // the input; the communicator owns it until finish()

    at::Tensor finish();
};

// Starts to gather the rows of all ranks. `own_SX`: this rank's rows. The result is [M, X] and has
// the rows of all ranks.
PendingRows start_gather(const RowSplit& split, const at::Tensor& own_SX, Tag tag);
at::Tensor gather_rows(const RowSplit& split, const at::Tensor& own_SX, Tag tag);

// Starts to sum `part_MX` over the ranks. The result is this rank's rows of the sum, [S, X], and is
// allocated by `place`.
PendingRows start_reduce(const RowSplit& split, const at::Tensor& part_MX, Tag tag,
                         const ops::Place& place = {});
at::Tensor reduce_rows(const RowSplit& split, const at::Tensor& part_MX, Tag tag,
                       const ops::Place& place = {});

}  // namespace roll::train
