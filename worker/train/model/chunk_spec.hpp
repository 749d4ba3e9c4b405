// The part of a model that a chunk holds, and the input of a training step.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/spec/model.hpp"

namespace roll::train {

struct ChunkSpec {
    std::int64_t layer_begin = 0;
    std::int64_t layer_end = 0;  // if equal to layer_begin, the chunk only passes its input on
    bool pre = true;             // the chunk holds the embedding
    bool post = true;            // the chunk holds the final norm, the output layer and the loss
};

// Returns the part of the model that global stage `stage` of `stages` holds, with the layers split
// as evenly as possible.
inline ChunkSpec split_layers(const spec::ModelConfig& config, int stage, int stages) {
    return {stage * config.layers / stages, (stage + 1) * config.layers / stages, stage == 0,
            stage == stages - 1};
}

// B sequences of T positions. The tensors are int64 and contiguous.
struct Microbatch {
    at::Tensor tokens_BT;
    at::Tensor targets_BT;  // next token of each position, or ops::kIgnored
    // Starts of the segments as indices into the B T rows, ascending and including each row's
    // start. Segments do not attend to each other. If empty, each row is one segment.
    std::vector<std::int64_t> segments = {};
};

}  // namespace roll::train
