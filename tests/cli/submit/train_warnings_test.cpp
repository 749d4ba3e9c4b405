#include "cli/submit/checks.hpp"
#include "tests/common/spec/job_files.hpp"

namespace roll::cli {
namespace {

using TrainWarnings = spec::JobFiles;

TEST_F(TrainWarnings, ALongTrainingWithoutCheckpointsIsWarnedOf) {
    const auto told = [&](const Json& keys) {
        Json document = train_file();
        document.merge_patch(keys);
        const spec::ParsedJob parsed = parse(document);
        for (const spec::Problem& problem : parsed.problems) ADD_FAILURE() << sentence(problem);
        const std::vector<std::string> warnings = train_warnings({parsed.spec});
        return warnings.empty() ? "" : warnings.front();
    };
    const Json hours{{"resources", {{"time", "2h"}}}};
    EXPECT_EQ(told(hours),
              "warning: kjv: checkpoint.every is 0: if the job is killed before step 10, all its "
              "progress is lost");
    EXPECT_NE(told({{"resources", {{"time", nullptr}}}}), "") << "it has no time limit";
    EXPECT_EQ(told({{"resources", {{"time", "1h"}}}}), "") << "it has little to lose";
    Json saves = hours;
    saves["checkpoint"]["every"] = 5;
    EXPECT_EQ(told(saves), "");
    Json epochs = hours;
    epochs["train"] = {{"epochs", 2}, {"steps", nullptr}};
    EXPECT_NE(told(epochs).find("before its last step"), std::string::npos) << told(epochs);
}

TEST_F(TrainWarnings, NameKeysWithoutEffect) {
    const auto told = [&](const char* pointer, const Json& value, const Json& keys) {
        Json document = train_file();
        document[Json::json_pointer(pointer)] = value;
        document.merge_patch(keys);
        const spec::ParsedJob parsed = parse(document);
        for (const spec::Problem& problem : parsed.problems) ADD_FAILURE() << sentence(problem);
        const std::vector<std::string> warnings = train_warnings({parsed.spec});
        return warnings.empty() ? "" : warnings.front();
    };
    const Json nothing_held{{"data", {{"valid", 0}}}};
    EXPECT_EQ(told("/train/valid_every", 5, nothing_held),
              "warning: kjv: train.valid_every is 5, but has no effect, because data.valid holds "
              "out no data; set data.valid, or remove train.valid_every");
    EXPECT_EQ(told("/train/valid_every", 5, Json::object()), "");
    EXPECT_EQ(told("/train/valid_every", 0, nothing_held), "");
    const Json wsd{{"train", {{"optimizer", {{"schedule", "wsd"}}}}}};
    EXPECT_EQ(told("/train/optimizer/wsd_decay_steps", 5, Json::object()),
              "warning: kjv: train.optimizer.wsd_decay_steps is 5, but has no effect, because "
              "train.optimizer.schedule is not wsd; set schedule to wsd, or remove "
              "wsd_decay_steps");
    EXPECT_EQ(told("/train/optimizer/wsd_decay_steps", 5, wsd), "");
    EXPECT_EQ(
        told("/train/sample", Json{{"every", 4}}, Json::object()),
        "warning: kjv: train.sample.every is 4, but train.sample.prompts is empty, so no text "
        "is sampled; set prompts, or remove train.sample.every");
    EXPECT_EQ(told("/train/evaluation", Json{{"every", 2}}, Json::object()),
              "warning: kjv: train.evaluation.every is 2, but train.evaluation.tasks is empty, so "
              "no task is measured; set tasks, or remove train.evaluation.every");
}

}  // namespace
}  // namespace roll::cli
