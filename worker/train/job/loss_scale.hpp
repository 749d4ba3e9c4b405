// The dynamic loss scale of a job with precision fp16 (train.loss_scale), by the rule of
// megatron-core 0.16's DynamicGradScaler. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/spec/train/train.hpp"
#include "worker/checkpoint/state.hpp"

namespace roll::train {

// Returns the loss scale at the start of a job; nullopt if the job's precision needs none.
std::optional<checkpoint::LossScale> first_loss_scale(const spec::TrainSpec& spec);

// Returns the number of steps that count for the schedules of learning rate and weight decay. As in
// Megatron, steps that were skipped because of an overflow do not count.
std::int64_t scheduled_steps(const checkpoint::State& state);

// Changes the scale after a step. An overflow sets the number of consecutive good steps to 0 and is
// added to the number of skipped steps. If the number of tolerated overflows is above 0, an
// overflow lowers this number by 1. Otherwise, the overflow lowers the scale. After growth_interval
// consecutive good steps, the scale doubles, and the number of tolerated overflows gets its initial
// value again.
void note_step(checkpoint::LossScale& scale, const spec::LossScaleSpec& spec, bool overflowed);

// Returns the reason to end the job: too many consecutive steps have overflowed at the lowest
// scale. Returns nullopt if training may continue.
std::optional<std::string> too_many_overflows(const checkpoint::LossScale& scale,
                                              const spec::LossScaleSpec& spec);

}  // namespace roll::train
