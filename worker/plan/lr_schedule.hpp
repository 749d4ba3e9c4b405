// Computes the learning rate and the weight decay of each optimizer step like
// OptimizerParamScheduler of megatron-core 0.16. Both are pure functions of the number of updates
// already made.
#pragma once

#include <cstdint>

#include "common/spec/train.hpp"

namespace roll::plan {

// Returns the learning rate of the update that follows `updates` earlier ones. As in Megatron, the
// first update of a run with warm-up uses init_lr. Warm-up is linear from init_lr to lr. After
// warm-up, the rate is constant or decays. A decaying rate reaches min_lr after decay_steps updates
// (if 0, after the run's `steps`) and then stays at min_lr. The schedule wsd keeps lr until its
// last wsd_decay_steps. The schedule inverse-square-root is lr * sqrt(warmup_steps / updates), but
// at least min_lr; after decay_steps it drops to min_lr.
double learning_rate(const spec::OptimizerSpec& spec, std::int64_t steps, std::int64_t updates);

// Returns the weight decay of the update that follows `updates` earlier ones. The weight decay goes
// from weight_decay at the first update to weight_decay_end after `steps` updates.
double weight_decay(const spec::OptimizerSpec& spec, std::int64_t steps, std::int64_t updates);

}  // namespace roll::plan
