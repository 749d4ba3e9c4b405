// Divides the optimizer state, or weights and optimizer state, among the ranks that write a
// checkpoint. Each element is written by exactly one rank of the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/tensor/view.hpp"
#include "worker/layout/rows.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// The rows of a parameter's state that this rank writes.
struct Owned {
    std::size_t chunk = 0, index = 0;
    layout::Rows rows;
    // the states that have the parameter's shape
    std::vector<const StateTensors*> kinds;
    std::int64_t row_bytes = 0;  // number of bytes of one row that the rank writes
};

// Returns the rows of each parameter that this rank writes; leaves out parameters of which it
// writes no rows. If ranks share optimizer state, each rank writes its own rows. Otherwise, the
// replicas divide the state so that all ranks write about the same number of bytes. `fixed` has,
// for each replica, the number of other bytes that the counterpart of this rank (same tp and pp
// rank) writes. `with_weights`: true if the ranks also write the main weights of these rows.
std::vector<Owned> owned_rows(TrainStep& step, const std::vector<std::int64_t>& fixed,
                              bool with_weights = false);

// Returns, for each replica, the number of bytes of the state that the counterpart of this rank
// writes, as owned_rows() divides the state.
std::vector<std::int64_t> owned_bytes(TrainStep& step, const std::vector<std::int64_t>& fixed);

// Divides `shared` bytes among the ranks. Returns the number of bytes for each rank. This division
// makes the largest sum of a rank's share and its `fixed` bytes as small as possible. Pure.
std::vector<std::int64_t> balanced_shares(const std::vector<std::int64_t>& fixed,
                                          std::int64_t shared);

// Returns true for the last stage's copy of a tied embedding.
bool is_tied_copy(const ChunkSpec& part, const ParameterSpec& spec);

tensor::DType stored_dtype(const StateTensors& kind);

}  // namespace roll::train
