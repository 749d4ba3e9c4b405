#include "common/spec/loss_scale.hpp"

#include <fmt/format.h>

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

std::vector<Problem> loss_scale_problems(const Json& document) {
    const Json train = document.value("train", Json());
    if (!train.is_object() || !train.contains("loss_scale")) return {};
    const Json precision = train.value("precision", Json("fp32"));
    if (precision != "fp16")
        return {{"train.loss_scale",
                 fmt::format("is only for precision fp16, but train.precision is {}; remove "
                             "loss_scale, or set precision: fp16",
                             precision.is_string() ? precision.get<std::string>() : "no text")}};
    const Json& scale = train["loss_scale"];
    const auto is_number = [&](const char* key) {
        return !scale.contains(key) || scale[key].is_number();
    };
    if (!scale.is_object() || !is_number("initial") || !is_number("min")) return {};
    const double initial = scale.value("initial", LossScaleSpec().initial);
    const double min = scale.value("min", LossScaleSpec().min);
    if (min <= initial) return {};
    return {
        {"train.loss_scale.min",
         fmt::format("is {:g}; allowed: at most loss_scale.initial, which is {:g}", min, initial)}};
}

}  // namespace roll::spec
