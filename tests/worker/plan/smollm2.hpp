// The sizes of SmolLM2-135M.
#pragma once

#include "common/spec/train/model.hpp"

namespace roll::plan {

inline spec::ModelConfig smollm2() {
    spec::ModelConfig model;
    model.hidden = 576;
    model.layers = 30;
    model.heads = 9;
    model.kv_heads = 3;
    model.head_dim = 64;
    model.intermediate = 1536;
    model.vocab = 49152;
    model.tied = true;
    return model;
}

}  // namespace roll::plan
