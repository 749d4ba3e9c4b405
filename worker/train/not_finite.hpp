// Where a number that is none came from.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/train/model/chunk.hpp"

namespace roll::train {

struct NotFinite {
    std::string what;               // "the weight NAME", "the loss, then the gradient of NAME", ...
    std::vector<int> microbatches;  // where; of a weight, none is at fault
};

// Runs this rank's micro-batches again, one by one and with nothing reduced, over a whole model
// whose step was not made: those of them whose loss or gradient is not finite, and of the first the
// first parameter in the order of the computation. Nothing: this rank's part is fine. The gradients
// are those of the last micro-batch then.
std::optional<NotFinite> find_not_finite(Chunk& model, std::span<const Microbatch> batch);

}  // namespace roll::train
