// Where a number that is none came from.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "worker/train/model/chunk.hpp"

namespace roll::train {

struct NotFinite {
    std::string what;  // "the weight NAME", "the loss, then the gradient of NAME", ...
    int microbatch = 0;
};

// Runs this rank's micro-batches again, one by one and with nothing reduced, over a whole model
// whose step was not made: the first of them whose loss or gradient is not finite, and the first
// parameter in the order of the computation. Nothing: this rank's part is fine. The gradients are
// those of the last micro-batch looked at then.
std::optional<NotFinite> find_not_finite(Chunk& model, std::span<const Microbatch> batch);

}  // namespace roll::train
