#include "common/spec/resources.hpp"

#include <gtest/gtest.h>

#include "common/spec/features.hpp"
#include "common/spec/job.hpp"
#include "common/spec/train.hpp"

namespace roll::spec {
namespace {

ParsedJob parse(const char* resources) {
    const std::string text =
        R"({"name": "x", "kind": "command", "command": ["true"], "resources": )";
    return parse_job(text + resources + "}", "/");
}
std::string problem(const char* resources) {
    const ParsedJob job = parse(resources);
    return job.problems.empty() ? "" : job.problems[0].path + " " + job.problems[0].message;
}

TEST(JobResources, APartOfAGpuIsOneInHundredths) {
    const Resources half = parse(R"({"gpus_per_node": 0.5})").spec.resources;
    EXPECT_EQ(half.gpus_per_node, 1);
    EXPECT_EQ(half.gpu_percent, 50);
    EXPECT_EQ(half.gpu_hundredths(), 50);
    const Resources three =
        parse(R"({"gpus_per_node": 3, "nodes": 2, "spares": 1})").spec.resources;
    EXPECT_EQ(three.gpu_hundredths(), 900);
    EXPECT_EQ(gpus_text(50), "0.5");
    EXPECT_EQ(gpus_text(300), "3");
}

TEST(JobResources, WhatCannotBeIsSaid) {
    EXPECT_EQ(problem(R"({"gpus_per_node": 1.5})"),
              "resources.gpus_per_node is 1.5; allowed: a whole number, or hundredths of one GPU "
              "(0.01 to 0.99)");
    EXPECT_EQ(problem(R"({"gpus_per_node": 0.333})").substr(0, 32),
              "resources.gpus_per_node is 0.333");
    EXPECT_EQ(problem(R"({"nodes": 4, "segment": 3})"),
              "resources.segment is 3; allowed: a divisor of nodes 4");
    EXPECT_EQ(problem(R"({"nodes": 4, "variants": [{"nodes": 3, "segment": 2}]})"),
              "resources.variants[0].segment is 2; allowed: a divisor of nodes 3");
}

TEST(JobResources, AGangHasASlotForEachProcessAndNeedsAWorkerThatKnowsGangs) {
    const JobSpec gang = parse(R"({"nodes": 2, "tasks_per_node": 4})").spec;
    EXPECT_EQ(gang.resources.tasks_per_node, 4);
    EXPECT_EQ(gang.resources.slots_per_node, 4);
    EXPECT_EQ(gang.needs, std::vector<std::string>{kGangs});
    EXPECT_EQ(*job_spec_from_json(to_json(gang)), gang);
    EXPECT_EQ(parse(R"({"gpus_per_node": 8, "tasks_per_node": 8})").spec.resources.slots_per_node,
              1);
    EXPECT_EQ(parse(R"({"nodes": 2})").spec.needs, std::vector<std::string>{});
    EXPECT_EQ(problem(R"({"slots_per_node": 2, "tasks_per_node": 4})"),
              "resources.tasks_per_node is 4; allowed without GPUs: at most slots_per_node 2");
    EXPECT_EQ(problem(R"({"tasks_per_node": 0})"),
              "resources.tasks_per_node is 0; allowed: an integer, 1 to 4096");
    const ParsedJob other = parse_job(
        R"({"name": "x", "kind": "convert", "convert": {"source": "/", "target": "/t"},
            "resources": {"tasks_per_node": 2}})",
        "/");
    ASSERT_FALSE(other.ok());
    EXPECT_EQ(other.problems[0].message,
              "is 2 in a job of kind convert; allowed only in a job of kind command");
}

TEST(JobResources, AVariantIsLikeThemButForWhatItSays) {
    const JobSpec spec = parse(R"({"nodes": 2, "gpus_per_node": 4, "time": "1h",
                                   "variants": [{"gpus_per_node": 2, "time": "2h"},
                                                {"nodes": 1}]})")
                             .spec;
    ASSERT_EQ(spec.shapes(), 3);
    EXPECT_EQ(spec.shape(1).nodes, 2);
    EXPECT_EQ(spec.shape(1).gpus_per_node, 2);
    EXPECT_EQ(spec.shape(1).time, std::chrono::hours(2));
    EXPECT_EQ(spec.shape(2).gpus_per_node, 4);
    EXPECT_EQ(*job_spec_from_json(to_json(spec)), spec);
    const Json second = with_variant(Json::parse(spec.document.text()), 2)["resources"];
    EXPECT_EQ(second["nodes"], 1);
    EXPECT_EQ(second["gpus_per_node"], 4);
    EXPECT_FALSE(second.contains("variants"));
}

TEST(JobRetry, MayBeUnlimitedOrNever) {
    const ParsedJob job = parse_job(
        R"({"name": "x", "kind": "command", "command": ["true"],
            "retry": {"infra": "unlimited", "app": 0}})",
        "/");
    ASSERT_TRUE(job.ok());
    EXPECT_GE(job.spec.retry.infra, 1'000'000'000);
    EXPECT_EQ(job.spec.retry.app, 0);
}

TEST(JobRetry, ACommandThatFailedIsNotRunAgainUnlessItsFileSaysSo) {
    const auto app = [](const std::string& retry) {
        return parse_job(R"({"name": "x", "kind": "command", "command": ["false"])" + retry + "}",
                         "/")
            .spec.retry.app;
    };
    EXPECT_EQ(app(""), 0);
    EXPECT_EQ(app(R"(, "retry": {"infra": 3})"), 0);
    EXPECT_EQ(app(R"(, "retry": {"app": 2})"), 2);
}

}  // namespace
}  // namespace roll::spec
