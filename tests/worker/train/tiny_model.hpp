// A model that is small enough to train in milliseconds, and data for it.
#pragma once

#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "worker/train/ops/cross_entropy.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

inline spec::ModelConfig tiny_model(bool tied) {
    return {.family = "llama",
            .hidden = 24,
            .layers = 4,
            .heads = 4,
            .kv_heads = 2,
            .head_dim = 6,
            .intermediate = 40,
            .vocab = 53,
            .positions_max = 64,
            .tied = tied};
}

// Returns the micro-batches of a step. They are the same at each call and have different numbers of
// targets that count.
inline std::vector<Microbatch> tiny_batch(int step, int microbatches) {
    at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(step));
    std::vector<Microbatch> batch;
    for (int i = 0; i < microbatches; ++i) {
        const at::Tensor ids = at::randint(53, {2, 12}, generator);
        at::Tensor targets = ids.narrow(1, 1, 11).clone();
        targets.slice(1, 0, i).fill_(ops::kIgnored);
        batch.push_back({ids.narrow(1, 0, 11).contiguous(), targets});
    }
    return batch;
}

}  // namespace roll::train
