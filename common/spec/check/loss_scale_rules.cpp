#include "common/spec/check/loss_scale_rules.hpp"

#include <string>

#include <fmt/format.h>

#include "common/spec/train/loss_scale.hpp"

namespace roll::spec {

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
