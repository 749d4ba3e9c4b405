#include "common/spec/train/bad_steps.hpp"

#include <string>

#include "common/spec/train/names.hpp"

namespace roll::spec {
namespace {

// Names of the policies, in the order of OnBadStep. The schema's checker refuses `ignore` for
// on_not_finite, and `retry` for on_spike.
constexpr std::array kOnBadSteps = {"ignore", "stop", "skip", "retry", "rewind"};

}  // namespace

Result<BadStepSpec> bad_step_spec(const Json& train) {
    BadStepSpec spec;
    ROLL_TRY(spec.on_not_finite,
             pick<OnBadStep>("train.on_not_finite",
                             train.value("on_not_finite", std::string("stop")), kOnBadSteps));
    ROLL_TRY(spec.on_spike,
             pick<OnBadStep>("train.on_spike", train.value("on_spike", std::string("ignore")),
                             kOnBadSteps));
    if (!train.contains("spike")) return spec;
    spec.deviations = train["spike"].value("deviations", spec.deviations);
    spec.window = train["spike"].value("window", spec.window);
    return spec;
}

}  // namespace roll::spec
