// Checks the bytes of a checkpoint from which a job takes its weights.
#pragma once

#include <filesystem>

#include "worker/train/comm/communicator.hpp"

namespace roll::train {

// Each rank reads and checks a part of the bytes. A checkpoint of a training job is compared with
// the hashes in its manifest. Other checkpoints of Megatron and of torch.distributed.checkpoint are
// compared with the CRC-32s of torch.save. Directories of other formats are not checked. If
// `optimizer` is false, files that have only optimizer state are not checked. All ranks must call
// this function. Throws RankFailure, on all ranks, if bytes are damaged or a file is missing.
void check_given(const std::filesystem::path& directory, bool optimizer, Communicator& world);

}  // namespace roll::train
