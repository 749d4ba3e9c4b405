// train.loss_scale: the factor of the loss in training with precision fp16.
#pragma once

#include "common/json.hpp"

namespace roll::spec {

// The loss is multiplied by a scale, so that small gradients are not rounded to 0 in float16. The
// update divides the gradients by the scale. worker/train/job/loss_scale.hpp has the rule by which
// the scale changes.
struct LossScaleSpec {
    double initial = 65536;
    int growth_interval = 1000;  // consecutive steps without overflow after which the scale doubles
    double backoff = 0.5;        // factor by which an overflow multiplies the scale
    // After the start of the job and after each growth of the scale, the first `hysteresis` - 1
    // overflows do not change the scale. Each later overflow lowers the scale.
    int hysteresis = 2;
    double min = 1;  // the scale is never lowered below this value
};

// Reads train.loss_scale, whose types the schema's checker has accepted. `json` may be null.
LossScaleSpec loss_scale_spec(const Json& json);

}  // namespace roll::spec
