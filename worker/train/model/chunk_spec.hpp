// Which part of a model a chunk holds, and what a step feeds it.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/spec/model.hpp"

namespace roll::train {

struct ChunkSpec {
    std::int64_t layer_begin = 0;
    std::int64_t layer_end = 0;  // may equal layer_begin: a chunk may pass its input on
    bool pre = true;             // holds the embedding
    bool post = true;            // holds the last norm, the output layer and the loss
};

// The part of global stage `stage` when the layers are split as evenly as they can be.
inline ChunkSpec split_layers(const spec::ModelConfig& config, int stage, int stages) {
    return {stage * config.layers / stages, (stage + 1) * config.layers / stages, stage == 0,
            stage == stages - 1};
}

// B sequences of T positions; int64, contiguous.
struct Microbatch {
    at::Tensor tokens_BT;
    at::Tensor targets_BT;  // each position's next token, or ops::kIgnored
    // Where segments that see nothing of each other begin, in B T rows: ascending, each row's start
    // among them. Empty: each row is one.
    std::vector<std::int64_t> segments = {};
};

}  // namespace roll::train
