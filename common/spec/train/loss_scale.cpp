#include "common/spec/train/loss_scale.hpp"

namespace roll::spec {

LossScaleSpec loss_scale_spec(const Json& json) {
    if (!json.is_object()) return {};
    LossScaleSpec spec;
    spec.initial = json.value("initial", spec.initial);
    spec.growth_interval = json.value("growth_interval", spec.growth_interval);
    spec.backoff = json.value("backoff", spec.backoff);
    spec.hysteresis = json.value("hysteresis", spec.hysteresis);
    spec.min = json.value("min", spec.min);
    return spec;
}

}  // namespace roll::spec
