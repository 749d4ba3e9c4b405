// Chooses where a job keeps the data that is not in the memory of its devices: the state of its
// optimizer (train.optimizer.offload), and the activations that forward saves
// (train.activation_offload).
//
// On a GPU, the place is the host's memory. On a CPU, the data is in files in $TMPDIR. If $TMPDIR
// is not set or not on a disk, the files are in the output directory. Rank 0 prints the place. The
// functions throw RankFailure(refused) if neither directory is on a disk, or if the disk has no
// space.
#pragma once

#include "common/protocol/rank.hpp"
#include "worker/train/comm/backend.hpp"
#include "worker/train/model/state_memory.hpp"
#include "worker/train/pipeline/job_memory.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Returns the memory of the optimizer's state; empty if the job does not offload it.
StateMemory offload_memory(const spec::TrainSpec& spec, const protocol::Launch& launch, int rank,
                           const Backend& backend);

// Makes the chunks of `step` keep saved activations outside the device's memory, if the job
// offloads them. If the activations are in a file, reserves the space that the job's plan computes,
// and an eighth more.
void offload_activations(const spec::TrainSpec& spec, const JobPipeline& pipeline,
                         const protocol::Launch& launch, int rank, const Backend& backend,
                         TrainStep& step);

}  // namespace roll::train
