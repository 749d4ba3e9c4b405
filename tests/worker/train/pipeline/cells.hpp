// Trains cells: a tiny model in one layout each, on the strict fabric of
// worker/train/comm/local_fabric.hpp, for tests that compare layouts.
#pragma once

#include <algorithm>

#include "tests/worker/train/pipeline/world.hpp"

namespace roll::train {

struct Cell {
    int dp = 1, tp = 1, zero = 0;
    bool sequence = false;
    at::ScalarType dtype = at::kDouble;
    double clip = kClip;  // 0: no clipping
    std::vector<std::string> freeze = {};
    spec::OptimizerSpec optimizer = {};
};

// Trains dp * pp * tp ranks in an order that no other call uses.
inline Named train(const spec::ModelConfig& config, const plan::PipelineSchedule& schedule,
                   const Cell& cell = {}) {
    static std::uint64_t seed = 0;
    return train(World{.config = config,
                       .schedule = schedule,
                       .dp = cell.dp,
                       .tp = cell.tp,
                       .fabric = {.seed = ++seed},
                       .sequence = cell.sequence,
                       .zero = cell.zero,
                       .dtype = cell.dtype,
                       .clip = cell.clip,
                       .freeze = cell.freeze,
                       .optimizer = cell.optimizer});
}

inline double worst(const Named& seen, const Named& reference) {
    EXPECT_EQ(seen.size(), reference.size());
    double result = 0;
    for (const auto& [name, tensor] : reference) {
        expect_close(seen.at(name), tensor, name);
        result = std::max(result, error(seen.at(name), tensor));
    }
    return result;
}

inline Named train_alone(const spec::ModelConfig& config, int microbatches = kMicrobatches) {
    return train(config, plan::one_forward_one_backward(1, microbatches));
}

}  // namespace roll::train
