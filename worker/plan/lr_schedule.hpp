// The learning rate and the weight decay of each optimizer step: Megatron's OptimizerParamScheduler
// (megatron-core 0.16), as pure functions of the updates made before.
#pragma once

#include <cstdint>

#include "common/spec/train.hpp"

namespace roll::plan {

// The rate of the update that follows `updates` earlier ones (so the first step of a run with a
// warm-up has rate init_lr, as in Megatron). Warm-up is linear from init_lr to lr; then the rate
// stays, or falls so that it is min_lr after decay_steps updates (`steps` of the run if the spec
// names none) and after them. wsd stays at lr until its last wsd_decay_steps. inverse-square-root
// is lr * sqrt(warmup_steps / updates), never below min_lr, to which it drops after decay_steps.
double learning_rate(const spec::OptimizerSpec& spec, std::int64_t steps, std::int64_t updates);

// Likewise: from weight_decay at the first update to weight_decay_end after `steps`.
double weight_decay(const spec::OptimizerSpec& spec, std::int64_t steps, std::int64_t updates);

}  // namespace roll::plan
