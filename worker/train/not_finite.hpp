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
    std::vector<int> microbatches;  // indices of those at fault; empty if a weight is at fault
};

// Finds this rank's micro-batches with a non-finite loss or gradient. Replays each of them, one by
// one and without reduction, over a whole model whose step was not applied. Also returns, for the
// first such micro-batch, the first bad parameter in the order of the computation. Returns nullopt
// if all values of this rank are finite. Overwrites the gradients.
std::optional<NotFinite> find_not_finite(Chunk& model, std::span<const Microbatch> batch);

}  // namespace roll::train
