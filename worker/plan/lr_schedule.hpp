// Computes the learning rate and the weight decay of each optimizer step, like
// OptimizerParamScheduler of megatron-core 0.16. Both are pure functions of the number of earlier
// updates.
#pragma once

#include <cstdint>

#include "common/spec/train/train.hpp"

namespace roll::plan {

// Returns the learning rate of the update that follows `updates` earlier updates. During warm-up,
// the rate changes linearly from init_lr to lr. The first update uses init_lr, as in Megatron.
// After warm-up, the rate is constant or decays. A decaying rate reaches min_lr after decay_steps
// updates and then stays there. If decay_steps is 0, the decay ends after the run's `steps`. The
// schedule wsd keeps lr at first, and decays only in the last wsd_decay_steps updates of the decay.
// The schedule inverse-square-root is lr * sqrt(warmup_steps / updates), but at least min_lr; after
// decay_steps the rate is min_lr.
double learning_rate(const spec::OptimizerSpec& spec, std::int64_t steps, std::int64_t updates);

// Returns the weight decay of the update that follows `updates` earlier updates. The weight decay
// goes from weight_decay at the first update to weight_decay_end after `steps` updates.
double weight_decay(const spec::OptimizerSpec& spec, std::int64_t steps, std::int64_t updates);

}  // namespace roll::plan
