// Determines the decoder layers of each pipeline stage and virtual chunk. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.hpp"
#include "worker/formats/mca.hpp"

namespace roll::layout {

struct LayerRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// Returns the layers of each pipeline rank and chunk as ranges[rank][chunk]. As in Megatron, chunk
// c of rank p is part c * pp + p of the model. Fails with InvalidArgument if the layers do not
// divide evenly, or if the layout string has another number of layers than the model.
Result<std::vector<std::vector<LayerRange>>> split_layers(std::int64_t layers,
                                                          const formats::McaLayout& layout);

}  // namespace roll::layout
