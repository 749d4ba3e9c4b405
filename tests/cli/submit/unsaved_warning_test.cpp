#include "cli/submit/checks.hpp"
#include "tests/common/spec/job_files.hpp"

namespace roll::cli {
namespace {

using Unsaved = spec::JobFiles;

TEST_F(Unsaved, ALongTrainingWithoutCheckpointsIsWarnedOf) {
    const auto told = [&](const Json& keys) {
        Json document = train_file();
        document.merge_patch(keys);
        const spec::ParsedJob parsed = parse(document);
        for (const spec::Problem& problem : parsed.problems) ADD_FAILURE() << sentence(problem);
        const std::vector<std::string> warnings = unsaved_warnings({parsed.spec});
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

}  // namespace
}  // namespace roll::cli
