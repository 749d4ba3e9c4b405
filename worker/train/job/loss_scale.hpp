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

// Returns the number of steps by which the schedules of learning rate and weight decay have moved
// on. As in Megatron, a step that an overflow skips does not move them.
std::int64_t scheduled_steps(const checkpoint::State& state);

// Changes the scale after a step. After an overflow, the number of consecutive good steps is 0, and
// the scale is lowered if no more overflows are tolerated. After enough consecutive good steps, the
// scale doubles, and as many overflows as at the start are tolerated again. A step with an overflow
// is added to the number of skipped steps.
void note_step(checkpoint::LossScale& scale, const spec::LossScaleSpec& spec, bool overflowed);

// Returns the reason to end the job: too many consecutive steps have overflowed at the lowest
// scale. Returns nullopt if training may continue.
std::optional<std::string> too_many_overflows(const checkpoint::LossScale& scale,
                                              const spec::LossScaleSpec& spec);

}  // namespace roll::train
