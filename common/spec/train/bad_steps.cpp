#include "common/spec/train/bad_steps.hpp"

#include <string>

#include "common/spec/train/names.hpp"

namespace roll::spec {
namespace {

constexpr Names<OnBadStep, 4> kOnNotFinite{{{"stop", OnBadStep::Stop},
                                            {"skip", OnBadStep::Skip},
                                            {"retry", OnBadStep::Retry},
                                            {"rewind", OnBadStep::Rewind}}};
constexpr Names<OnBadStep, 4> kOnSpike{{{"ignore", OnBadStep::Ignore},
                                        {"skip", OnBadStep::Skip},
                                        {"rewind", OnBadStep::Rewind},
                                        {"stop", OnBadStep::Stop}}};

}  // namespace

Result<BadStepSpec> bad_step_spec(const Json& train) {
    BadStepSpec spec;
    ROLL_TRY(spec.on_not_finite,
             pick("train.on_not_finite", train.value("on_not_finite", std::string("stop")),
                  kOnNotFinite));
    ROLL_TRY(spec.on_spike,
             pick("train.on_spike", train.value("on_spike", std::string("ignore")), kOnSpike));
    if (!train.contains("spike")) return spec;
    spec.deviations = train["spike"].value("deviations", spec.deviations);
    spec.window = train["spike"].value("window", spec.window);
    return spec;
}

}  // namespace roll::spec
