// train.on_not_finite, train.on_spike and train.spike: steps whose update must not be applied.
#pragma once

#include <cstdint>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::spec {

// The policy for a step that is not finite, or that is a spike. Only spikes may be ignored.
enum class OnBadStep { Ignore, Stop, Skip, Retry, Rewind };

// A step is a spike if its loss or gradient norm is too far above the values of earlier steps.
// worker/train/job/outlier.hpp has the rule.
struct BadStepSpec {
    OnBadStep on_not_finite = OnBadStep::Stop;
    OnBadStep on_spike = OnBadStep::Ignore;
    // Distance of a spike from the median of earlier steps, in standard deviations
    double deviations = 6;
    int window = 128;  // number of latest applied steps with which a step is compared
};

// Reads these keys of `train`, whose types the schema's checker has accepted.
Result<BadStepSpec> bad_step_spec(const Json& train);

}  // namespace roll::spec
