// Settings of jobs whose model has experts.
#include "common/spec/check/experts.hpp"

#include <gtest/gtest.h>

#include "common/json.hpp"
#include "common/spec/job/job.hpp"
#include "tests/common/spec/job_files.hpp"

namespace roll::spec {
namespace {

TEST(Experts, EachSettingThatDoesNotWorkIsNamed) {
    EXPECT_TRUE(expert_problems({.objective = "sft"}).empty());
    const auto path_of = [](const ExpertUse& use) {
        const std::vector<Problem> problems = expert_problems(use);
        return problems.size() == 1 ? problems.front().path : "";
    };
    EXPECT_EQ(path_of({.objective = "dpo"}), "objective");
    EXPECT_EQ(path_of({.objective = "", .cp = 2}), "parallel.cp");
    EXPECT_EQ(path_of({.objective = "", .has_lora = true}), "train.lora");
    EXPECT_EQ(path_of({.objective = "", .on_gpu = true}), "resources");
}

class ExpertJobs : public JobFiles {};

TEST_F(ExpertJobs, NeedAWorkerThatTrainsExperts) {
    Json json = train_file();
    json["model"]["num_experts"] = 4;
    EXPECT_EQ(parse(json).spec.needs, std::vector<std::string>{"experts"});
}

}  // namespace
}  // namespace roll::spec
