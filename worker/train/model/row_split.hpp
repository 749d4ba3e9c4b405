// Sequence parallelism: outside of the linear layers, each rank of a tensor-parallel group has a
// run of a micro-batch's M rows.
//
// Each rank has S = ceil(M / ranks) rows. The last rows of the last ranks may be padding: no other
// row depends on them, and their gradients are 0.
#pragma once

#include <cstdint>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/ops/values.hpp"

namespace roll::train {

struct RowSplit {
    Communicator* tp = nullptr;  // null: each rank has all rows
    std::int64_t rows = 0;       // M

    bool is_split() const { return tp != nullptr; }
    std::int64_t rows_per_rank() const {
        return is_split() ? (rows + tp->size() - 1) / tp->size() : rows;
    }
};

// A tensor that the ranks exchange. finish() waits for it and returns it; call it once.
struct PendingRows {
    Communicator& tp;
    Communicator::Ticket ticket;
    at::Tensor rows;   // the result
    at::Tensor other;  // the input, which the communicator owns until finish()

    at::Tensor finish();
};

// Starts to gather the rows of all ranks, [M, X], from each rank's own, [S, X].
PendingRows start_gather(const RowSplit& split, const at::Tensor& own_SX, Tag tag);
at::Tensor gather_rows(const RowSplit& split, const at::Tensor& own_SX, Tag tag);

// Starts to sum [M, X] over the ranks. Each rank gets its own rows of the sum, [S, X], which
// `place` allocates.
PendingRows start_reduce(const RowSplit& split, const at::Tensor& part_MX, Tag tag,
                         const ops::Place& place = {});
at::Tensor reduce_rows(const RowSplit& split, const at::Tensor& part_MX, Tag tag,
                       const ops::Place& place = {});

}  // namespace roll::train
