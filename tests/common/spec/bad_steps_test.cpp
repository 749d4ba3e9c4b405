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

TEST_F(BadSteps, AGlitchIsPossibleOnlyBeforeAndAfterAReduction) {
    Json json = train_file();
    json["train"]["faults"] = {
        {{"rank", 0}, {"step", 3}, {"phase", "reduce"}, {"kind", "glitch"}},
        {{"rank", 0}, {"step", 3}, {"phase", "optimizer"}, {"kind", "glitch"}},
        {{"rank", 0}, {"step", 3}, {"phase", "forward"}, {"kind", "glitch"}}};
    EXPECT_EQ(
        problems(json),
        "train.faults[2].phase is forward, but a glitch changes a gradient before or after it "
        "is summed over the ranks; allowed: reduce or optimizer\n");
}

TEST_F(BadSteps, AFullDiskIsNoticedBySavesAndASlowRankNeedsATime) {
    Json json = train_file();
    const auto fault = [](const char* phase, const char* kind) {
        return Json{{"rank", 0}, {"step", 3}, {"phase", phase}, {"kind", kind}};
    };
    json["train"]["faults"] = {fault("save", "disk_full"), fault("forward", "slow")};
    json["train"]["faults"][1]["ms"] = 20;
    EXPECT_EQ(problems(json), "");
    EXPECT_EQ(train_spec(parse(json).spec.document.text())->faults[1].ms, 20);
    json["train"]["faults"] = {fault("reduce", "disk_full"), fault("forward", "slow"),
                               fault("save", "disk_full")};
    json["train"]["faults"][2]["ms"] = 20;
    EXPECT_EQ(problems(json),
              "train.faults[0].phase is reduce, but a full disk is noticed when a checkpoint is "
              "saved; allowed: save\n"
              "train.faults[1].ms is missing; kind slow needs the time in ms that the rank sleeps "
              "in each step\n"
              "train.faults[2].ms belongs to kind slow; remove ms, or set kind to slow\n");
}

TEST_F(BadSteps, AFaultIsInARankAndAStepOfTheJob) {
    Json json = train_file();
    json["train"]["faults"] = {{{"rank", 1}, {"step", 10}, {"phase", "forward"}, {"kind", "kill"}},
                               {{"rank", 2}, {"step", 11}, {"phase", "forward"}, {"kind", "kill"}}};
    EXPECT_EQ(problems(json),
              "train.faults[1].rank is 2; allowed: 0 to 1, the ranks of the job\n"
              "train.faults[1].step is 11; allowed: 1 to 10, the steps of the job "
              "(train.steps)\n");
    json["train"]["faults"].erase(1);
    EXPECT_EQ(problems(json), "");
    json["resources"]["variants"] = {{{"slots_per_node", 1}}};
    EXPECT_EQ(problems(json), "train.faults[0].rank is 1; allowed: 0 to 0, the ranks of the job\n");
}

}  // namespace
}  // namespace roll::spec
