// The numbers of a step that are sums over ranks. One transfer gathers the parts of all ranks. Then
// every rank adds up the parts in the same order. Therefore, all ranks get the same bits, and the
// bits do not depend on the network. The caller's own numbers go with the same transfer.
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/train/pipeline/step_options.hpp"
#include "worker/train/pipeline/step_result.hpp"

namespace roll::train {

// One rank's part of the sums.
struct StepParts {
    // The last stage computes these sums from its replica's micro-batches. They are 0 on other
    // stages.
    double loss = 0, divergence = 0;
    PairSums pairs = {};
    double balance = 0, fullest = 0;  // ExpertLoads of the stage
    // For the gradient elements that this rank counts (counted_parameters()): the sum of their
    // squares, and the number of zeros.
    double squares = 0, zeros = 0;
};

struct StepSums {
    StepParts whole;      // the sums over all ranks that have different parts
    double own_loss = 0;  // the loss of this rank's replica
    // The sums of squares that the replicas have computed for the whole gradient, one for each
    // replica. If the replicas share optimizer state, there is only one number, the sum over all
    // replicas.
    std::vector<double> squares_D;
    at::Tensor extra_RN;  // `extra` of each rank, in the order of the job's ranks
};

// `shared`: the replicas share optimizer state, so each counts only some elements of the gradient.
// `extra`: numbers that are gathered but not summed, equally many on all ranks. All ranks of the
// job must call this function.
StepSums step_sums(const Groups& groups, const StepParts& own, bool shared,
                   std::span<const double> extra = {});

}  // namespace roll::train
