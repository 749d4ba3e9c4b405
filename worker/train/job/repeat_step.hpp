// Computes a bad step a second time. A step is a function of the weights and the samples, so two
// results are a sign of damaged memory, a bad processor or a bug.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/data/batches.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

struct RepeatDiffers {
    int rank = 0;  // the lowest rank whose own part of the result differs; 0 if unknown
    // names the step, both results and, if they are known, the ranks whose own part differs
    std::string sentence;
};

// Computes once more a step whose update was not applied, and compares the loss and the gradient
// norm with `result`. On a CPU, the values must be equal bit for bit. On a GPU, the order of sums
// is not fixed, so the values may differ by 1 %. Returns nullopt if the results agree. Overwrites
// the gradients. Every rank must call this function with its own part of the batch, and all ranks
// get the same result.
std::optional<RepeatDiffers> repeat_differs(TrainStep& step, std::span<const Microbatch> batch,
                                            const StepResult& result, const StepPlace& place,
                                            Communicator& world);

}  // namespace roll::train
