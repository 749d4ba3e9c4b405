// The part of a model that a chunk holds, and the input of a step.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/spec/model.hpp"

namespace roll::train {

struct ChunkSpec {
    std::int64_t layer_begin = 0;
    std::int64_t layer_end = 0;  // may equal layer_begin: then it only passes its input on
    bool pre = true;             // holds the embedding
    bool post = true;            // holds the final norm, the output layer and the loss
};

// Returns the part of global stage `stage` if the layers are split as evenly as possible.
inline ChunkSpec split_layers(const spec::ModelConfig& config, int stage, int stages) {
    return {stage * config.layers / stages, (stage + 1) * config.layers / stages, stage == 0,
            stage == stages - 1};
}

// B sequences of T positions; int64, contiguous.
struct Microbatch {
    at::Tensor tokens_BT;
    at::Tensor targets_BT;  // each position's next token, or ops::kIgnored
    // Starts of the segments that do not attend to each other, as indices into the B T rows:
    // ascending, including each row's start. Empty: each row is one segment.
    std::vector<std::int64_t> segments = {};
};

}  // namespace roll::train
