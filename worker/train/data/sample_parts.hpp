// Distributes the samples of a step over replicas and micro-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace roll::train {

// The size of a sample.
struct SampleSize {
    double cost = 0;          // relative time of its forward and backward
    std::int64_t tokens = 0;  // upper bound of the number of tokens that the model reads
};

struct PartRules {
    int replicas = 1;
    std::int64_t microbatches = 1;      // number of micro-batches of one replica
    std::int64_t micro_batch_size = 1;  // number of samples in a micro-batch
    bool balance = false;               // false: each replica gets consecutive samples, in order
    std::int64_t tokens_most = 0;       // a micro-batch with more tokens is split; 0: none is split
    // If splits increase the number of a replica's micro-batches, the new number is a multiple of
    // this number.
    std::int64_t multiple = 1;
};

// The samples of the micro-batches of one replica, as indices into the batch. The indices of a
// micro-batch are in ascending order.
using ReplicaPart = std::vector<std::vector<std::int64_t>>;

// Returns the part of each replica. All replicas have the same number of micro-batches. If
// micro-batches are split, this number may be above rules.microbatches, and some micro-batches may
// be empty. Every sample is in exactly one micro-batch. `sizes` has the sizes of all samples of the
// batch. It may be empty if the samples are neither balanced nor split.
//
// Balancing is greedy. Samples are assigned in descending order of cost. Each sample goes to the
// micro-batch with the smallest cost so far that has fewer than rules.micro_batch_size samples.
// Then, micro-batches are assigned to replicas in the same way.
//
// A micro-batch is split before each sample with which it would exceed rules.tokens_most. A sample
// with more tokens than this limit gets a micro-batch of its own.
std::vector<ReplicaPart> parts_of_batch(const PartRules& rules, std::span<const SampleSize> sizes);

}  // namespace roll::train
