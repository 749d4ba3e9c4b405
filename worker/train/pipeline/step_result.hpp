// What a training step and an evaluation return.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/train/objective/preference.hpp"

namespace roll::train {

struct StepResult {
    double loss = 0;         // minimized value: the mean loss over all dp ranks and micro-batches
    double grad_norm = 0;    // global norm of the gradient before clipping
    double clip_factor = 1;  // factor by which clipping scaled the gradient
    // Number of zeros in the gradient; nullopt if not counted
    std::optional<std::int64_t> grad_zeros = std::nullopt;
    std::int64_t tokens = 0;  // number of targets that count in the loss, over all dp ranks
    // False if the loss or the norm is not finite, or no target counts; the weights are then
    // unchanged.
    bool updated = false;
    std::optional<PairSums> pairs = std::nullopt;  // over all dp ranks; set only with a preference
    // Elements of gradients whose sum over the replicas this rank issued; and those of them that it
    // issued before the last contribution of backward
    std::int64_t reduced = 0, reduced_early = 0;
};

struct LossSum {
    double loss = 0;  // sum of -log p(target) over all targets that count, not scaled
    std::int64_t tokens = 0;
    std::optional<PairSums> pairs = std::nullopt;  // set only with a preference; `loss` is then 0
};

}  // namespace roll::train
