// Chooses where a job with train.optimizer.offload keeps the state of its optimizer.
#pragma once

#include "common/protocol/rank.hpp"
#include "worker/train/comm/backend.hpp"
#include "worker/train/model/state_memory.hpp"

namespace roll::train {

// Returns the host's memory if the rank computes on a GPU. Otherwise, returns files in $TMPDIR or,
// if that is not set or not on a disk, in the output directory. Rank 0 prints the place. Throws
// RankFailure(refused) if neither is on a disk.
StateMemory offload_memory(const protocol::Launch& launch, int rank, const Backend& backend);

}  // namespace roll::train
