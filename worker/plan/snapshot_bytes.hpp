// The size of the copy of a rank's part of a checkpoint. Pure.
#pragma once

#include <cstdint>

#include "common/spec/train/train.hpp"

namespace roll::plan {

// Returns the number of bytes that a rank of a stage copies for a checkpoint. The number is at most
// the size of the checkpoint buffer. The value is for the rank that copies the most.
//
// One replica copies and hashes the `weights` elements of weights, even if other replicas write a
// part of them. All replicas together copy the `states` elements of optimizer state. If the
// replicas share the optimizer state (ZeRO), or in a LoRA job, each replica copies an equal part of
// the state. Otherwise, the replica that copies the weights copies less of the state, which
// balances the replicas.
std::int64_t snapshot_bytes(const spec::TrainSpec& spec, bool is_lora, std::int64_t weights,
                            std::int64_t states);

}  // namespace roll::plan
