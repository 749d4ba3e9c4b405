#include "cli/job/environment.hpp"

#include <gtest/gtest.h>

namespace roll::cli {
namespace {

const std::vector<std::string> kHere = {
    "PATH=/bin",     "CONDA_PREFIX=/c", "COLOUR=red",     "HF_TOKEN=t", "api_key=k",
    "DB_PASSWORD=p", "MYSQL_PASSWD=p",  "SLURM_JOB_ID=7", "ROLL_JOB=3", "MASTER_PORT=1",
    "CONDA_TOKEN=x", "ODD=\xff",        "EMPTY="};

Json command(const Json& more = Json::object()) {
    Json document = {{"kind", "command"}};
    document.update(more);
    return document;
}

TEST(CaptureEnvironment, TheUsualVariablesAreCopiedOnce) {
    Json document = command({{"env", {{"CONDA_PREFIX", "mine"}}}});
    EXPECT_EQ(capture_environment(document, kHere, "ann"), std::vector<std::string>{"CONDA_TOKEN"});
    EXPECT_EQ(document["env"], (Json{{"PATH", "/bin"}, {"CONDA_PREFIX", "mine"}}));
    EXPECT_EQ(document["export_env"], "none");
    const Json before = document;
    EXPECT_TRUE(capture_environment(document, {"PATH=/other", "VIRTUAL_ENV=/v"}, "ann").empty());
    EXPECT_EQ(document, before) << "a resubmitted job keeps its environment";
}

TEST(CaptureEnvironment, AllLeavesOutSecretsAndWhatDescribesThisProcess) {
    Json document = command({{"export_env", "all"}, {"secrets", {"HF_TOKEN"}}});
    EXPECT_EQ(capture_environment(document, kHere, "ann"),
              (std::vector<std::string>{"CONDA_TOKEN", "DB_PASSWORD", "MYSQL_PASSWD", "api_key"}));
    EXPECT_EQ(document["env"],
              (Json{{"PATH", "/bin"}, {"CONDA_PREFIX", "/c"}, {"COLOUR", "red"}, {"EMPTY", ""}}));
}

TEST(CaptureEnvironment, NoneAndOtherKindsCopyNothing) {
    Json document = command({{"export_env", "none"}});
    EXPECT_TRUE(capture_environment(document, kHere, "ann").empty());
    EXPECT_FALSE(document.contains("env"));
    Json train = {{"kind", "train"}};
    EXPECT_TRUE(capture_environment(train, kHere, "ann").empty());
    EXPECT_EQ(train, (Json{{"kind", "train"}}));
    for (Json odd : {Json(3), Json{{"kind", "command"}, {"export_env", 7}},
                     Json{{"kind", "command"}, {"env", 7}}, Json{{"then", {1}}}}) {
        const Json before = odd;
        EXPECT_TRUE(capture_environment(odd, kHere, "ann").empty());
        EXPECT_EQ(odd, before) << "the schema's check reports it";
    }
}

TEST(CaptureEnvironment, TheJobsOfAChainGetItTooAndLogsTheUser) {
    Json document = {{"kind", "train"}, {"then", {command({{"stdout", "%u-%j"}})}}};
    capture_environment(document, kHere, "ann");
    EXPECT_EQ(document["then"][0]["env"]["PATH"], "/bin");
    EXPECT_EQ(document["then"][0]["stdout"], "ann-%j");
}

}  // namespace
}  // namespace roll::cli
