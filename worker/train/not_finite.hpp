// Finds where a non-finite value came from.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/train/model/chunk.hpp"

namespace roll::train {

struct NotFinite {
    std::string what;               // "the weight NAME", "the loss, then the gradient of NAME", ...
    std::vector<int> microbatches;  // indices; empty if a weight is at fault
};

// Replays each of this rank's micro-batches, one by one and without reduction, over a whole model
// whose step was not applied. Returns the micro-batches with a non-finite loss or gradient, and for
// the first of them the first bad parameter in the order of the computation; nullopt if this rank
// is clean. Overwrites the gradients.
std::optional<NotFinite> find_not_finite(Chunk& model, std::span<const Microbatch> batch);

}  // namespace roll::train
