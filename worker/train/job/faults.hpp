// Faults that a job injects into itself (train.faults), to test how a cluster handles them.
#pragma once

#include <cstdint>
#include <vector>

#include "common/spec/train/faults.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Injects the faults of rank `rank` for phase `phase` of step `step`. Steps are counted from 1. All
// ranks must call this, because some faults make all replicas wait for their weights.
void inject_faults(const std::vector<spec::FaultSpec>& faults, int rank, std::int64_t step,
                   spec::FaultPhase phase, TrainStep& trainer);

// Returns true if the rank must fail to write its part of the checkpoint of step `step`.
bool fills_disk(const std::vector<spec::FaultSpec>& faults, int rank, std::int64_t step);

}  // namespace roll::train
