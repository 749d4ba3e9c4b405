// The dynamic loss scale of a job with precision fp16 (train.loss_scale), by the rule of
// megatron-core 0.16's DynamicGradScaler. Pure.
#pragma once

#include <optional>
#include <string>

#include "common/spec/train.hpp"
#include "worker/checkpoint/state.hpp"

namespace roll::train {

// Returns the loss scale at the start of a job; nullopt if the job's precision needs none.
std::optional<checkpoint::LossScale> first_loss_scale(const spec::TrainSpec& spec);

// Changes the scale after a step. An overflow resets the count of consecutive good steps to 0. If
// no more overflows are tolerated, an overflow also lowers the scale. After enough consecutive good
// steps, the scale doubles, and the number of tolerated overflows is reset. A step with an overflow
// counts as skipped.
void note_step(checkpoint::LossScale& scale, const spec::LossScaleSpec& spec, bool overflowed);

// Returns the reason to end the job: too many consecutive steps have overflowed at the lowest
// scale. Returns nullopt if training may continue.
std::optional<std::string> too_many_overflows(const checkpoint::LossScale& scale,
                                              const spec::LossScaleSpec& spec);

}  // namespace roll::train
