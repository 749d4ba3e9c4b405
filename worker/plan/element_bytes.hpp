// The bytes per element of a job's precision. Pure.
#pragma once

#include <cstdint>

#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"

namespace roll::plan {

// Returns the bytes per element of the weights and activations in forward and backward.
std::int64_t element_bytes(spec::Precision precision);

// Returns the bytes per element of the main weights, which the optimizer updates.
std::int64_t main_bytes(spec::Precision precision);

// Returns the bytes per element that the main weights need in addition to the weights. On a CPU, a
// bf16 weight is one half of its fp32 main weight, so only the other half takes additional memory.
std::int64_t copy_bytes(spec::Precision precision, bool on_gpu);

// Numbers of elements of a rank's optimizer state outside the device's memory, and of main weights
// that are there on a GPU (train.optimizer.offload).
struct Outside {
    std::int64_t states = 0, main = 0;
};

// If the optimizer state is offloaded to a file, an update on a CPU holds at most this many bytes
// of each kind of state in memory at once.
inline constexpr std::int64_t kOffloadWindow = 8 << 20;

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

// Returns the bytes that packing saves in one layer of a LoRA job with a packed base.
std::int64_t layer_saving(const spec::ModelConfig& m, std::int64_t element);

// Returns the number of elements of the largest packed matrix; 0 if no matrix is packed. A product
// with a packed matrix unpacks the matrix first.
std::int64_t largest_unpacked(const spec::ModelConfig& m);

}  // namespace roll::plan
