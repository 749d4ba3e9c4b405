// The learning rate of each optimizer step: Megatron's OptimizerParamScheduler, as a pure function.
#pragma once

#include "common/spec/train.hpp"

namespace roll::plan {

// The rate of the update that follows `updates` earlier ones (so the first step of a run with a
// warm-up has rate 0, as in Megatron). Warm-up is linear from 0 to lr; then the rate stays, or
// falls as half a cosine to min_lr, which it reaches after decay_steps updates and keeps.
double learning_rate(const spec::OptimizerSpec& spec, std::int64_t decay_steps,
                     std::int64_t updates);

}  // namespace roll::plan
