// Computes learning rate and weight decay of each optimizer step as Megatron's
// OptimizerParamScheduler (megatron-core 0.16) does. Both are pure functions of the number of
// updates already made.
#pragma once

#include <cstdint>

#include "common/spec/train.hpp"

namespace roll::plan {

// Returns the learning rate of the update that follows `updates` earlier ones. So the first update
// of a run with warm-up uses init_lr, as in Megatron.
// Warm-up is linear from init_lr to lr. After it the rate is constant or decays to min_lr. It
// reaches min_lr after decay_steps updates (if 0, the run's `steps`) and stays there. wsd stays at
// lr until its last wsd_decay_steps. inverse-square-root is lr * sqrt(warmup_steps / updates), but
// at least min_lr; after decay_steps it drops to min_lr.
double learning_rate(const spec::OptimizerSpec& spec, std::int64_t steps, std::int64_t updates);

// Returns the weight decay of the update that follows `updates` earlier ones. It goes from
// weight_decay at the first update to weight_decay_end after `steps`.
double weight_decay(const spec::OptimizerSpec& spec, std::int64_t steps, std::int64_t updates);

}  // namespace roll::plan
