// train.on_spike, train.spike and the fault `glitch` in job files.
#include <tuple>

#include <gtest/gtest.h>

#include "common/json.hpp"
#include "common/spec/train/train.hpp"
#include "tests/common/spec/job_files.hpp"

namespace roll::spec {
namespace {

class BadSteps : public JobFiles {};

TEST_F(BadSteps, ASpikeNeedsAPolicyAndHasTheSchemasDefaults) {
    Json json = train_file();
    json["train"]["spike"] = Json::object();
    EXPECT_EQ(problems(json),
              "train.spike has no effect, because train.on_spike is ignore; remove spike, or set "
              "on_spike to skip, rewind or stop\n");
    json["train"]["on_spike"] = "rewind";
    const auto read = train_spec(parse(json).spec.document.text())->bad_steps;
    const BadStepSpec assumed;
    EXPECT_EQ(std::tuple(read.on_spike, read.deviations, read.window),
              std::tuple(OnBadStep::Rewind, assumed.deviations, assumed.window));
    json["train"]["spike"] = {{"window", 15}};
    EXPECT_EQ(problems(json), "train.spike.window is 15; allowed: an integer, 16 to 10000\n");
    json["train"]["spike"] = {{"deviations", 0}};
    EXPECT_EQ(problems(json), "train.spike.deviations is 0; allowed: a number, above 0\n");
}

TEST_F(BadSteps, AGlitchIsPossibleOnlyBeforeAReduction) {
    Json json = train_file();
    json["train"]["faults"] = {
        {{"rank", 0}, {"step", 3}, {"phase", "reduce"}, {"kind", "glitch"}},
        {{"rank", 0}, {"step", 3}, {"phase", "forward"}, {"kind", "glitch"}}};
    EXPECT_EQ(problems(json),
              "train.faults[1].phase is forward, but a glitch changes a gradient before it is "
              "reduced; allowed: reduce\n");
}

}  // namespace
}  // namespace roll::spec
