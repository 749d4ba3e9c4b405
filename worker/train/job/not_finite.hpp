// Finds which weight, loss or gradient of a rank is not finite.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/train/model/chunk.hpp"

namespace roll::train {

struct NotFinite {
    // the bad value: "the weight NAME", "the loss, then the gradient of NAME", ...
    std::string what;
    std::vector<int> microbatches;  // indices of the bad micro-batches; empty if a weight is bad
};

// Finds this rank's micro-batches with a non-finite loss or gradient. Replays each of them, one by
// one and without reduction, over a whole model to which the step was not applied. Also returns the
// first bad parameter of the first such micro-batch, in the order of the computation. Returns
// nullopt if all values of this rank are finite. Overwrites the gradients.
std::optional<NotFinite> find_not_finite(Chunk& model, std::span<const Microbatch> batch);

}  // namespace roll::train
