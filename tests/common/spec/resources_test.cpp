#include "common/spec/job/resources.hpp"

#include <gtest/gtest.h>

#include "common/spec/check/check_job.hpp"
#include "common/spec/job/features.hpp"
#include "common/spec/job/job.hpp"
#include "common/spec/train/train.hpp"
#include "tests/common/spec/job_files.hpp"

namespace roll::spec {
namespace {

ParsedJob parse(const char* resources) {
    const std::string text =
        R"({"name": "x", "kind": "command", "command": ["true"], "resources": )";
    return check_job(Json::parse(text + resources + "}"), "/");
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

TEST(JobResources, TimesThatContradictEachOtherAreRefused) {
    EXPECT_EQ(problem(R"({"time": "1h", "variants": [{"time": "0s"}]})"), "") << "no limit";
    const auto of = [](const char* keys) {
        const ParsedJob job =
            check_job(Json::parse(R"({"name": "x", "kind": "command", "command": ["true"], )" +
                                  std::string(keys) + "}"),
                      "/");
        return job.ok() ? "" : job.problems[0].path + " " + job.problems[0].message;
    };
    for (const auto& [keys, told] : std::vector<std::pair<const char*, const char*>>{
             {R"("hang_after": "0s")", "hang_after is 0s; allowed: auto, never, or at least 1s"},
             {R"("hang_first_step": "0s")",
              "hang_first_step is 0s; allowed: auto, never, or at least 1s"},
             {R"("hang_after": "never")", ""},
             {R"("begin": "2026-11-23", "deadline": "2026-11-22")",
              "begin is 2026-11-23; allowed: a time before the deadline, 2026-11-22"},
             {R"("begin": "2026-11-21", "deadline": "2026-11-22")", ""},
             {R"("retry": {"backoff": "10m", "backoff_max": "5m"})",
              "retry.backoff is 10m; allowed: at most retry.backoff_max, which is 5m"},
             {R"("retry": {"backoff": "10m"})", ""}})
        EXPECT_EQ(of(keys), told);
}

// `rollctl resume` submits the file of a job that an earlier version may have accepted.
using StoredFile = JobFiles;

TEST_F(StoredFile, OfAResumedJobIsNotRefusedByRulesOfALaterVersion) {
    Json json = train_file();
    json["resources"]["time"] = "0s";
    json["hang_after"] = json["hang_first_step"] = "0s";
    json["retry"] = {{"backoff", "10m"}, {"backoff_max", "5m"}};
    Json resumed = json;
    resumed["train"]["faults"] = {
        {{"rank", 2}, {"step", 1}, {"phase", "forward"}, {"kind", "kill"}}};
    resumed["kind"] = "resume";
    resumed["resume"] = {{"job", 12}};
    Json next = resumed;
    next["kind"] = "train";
    next.erase("resume");
    resumed["then"] = {next};
    EXPECT_EQ(problems(resumed), "");
    EXPECT_EQ(problems(json),
              "hang_after is 0s; allowed: auto, never, or at least 1s\n"
              "hang_first_step is 0s; allowed: auto, never, or at least 1s\n"
              "retry.backoff is 10m; allowed: at most retry.backoff_max, which is 5m\n");
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
    const ParsedJob other = check_job(
        Json::parse(R"({"name": "x", "kind": "convert", "convert": {"source": "/", "target": "/t"},
                        "resources": {"tasks_per_node": 2}})"),
        "/");
    ASSERT_FALSE(other.ok());
    EXPECT_EQ(other.problems[0].message,
              "is 2 in a job of kind convert; allowed only in a job of kind command");
}

TEST(JobResources, MemoryIsASizeAndCpusAreANumber) {
    const JobSpec spec = parse(R"({"memory": "512MiB", "cpus": 3,
                                   "variants": [{"memory": "5GB"}, {"cpus": 1}]})")
                             .spec;
    EXPECT_EQ(spec.resources.memory, 512LL << 20);
    EXPECT_EQ(spec.resources.cpus, 3);
    EXPECT_EQ(spec.shape(1).memory, 5'000'000'000);
    EXPECT_EQ(spec.shape(2).memory, 512LL << 20);
    EXPECT_EQ(spec.shape(2).cpus, 1);
    EXPECT_EQ(*job_spec_from_json(to_json(spec)), spec);
    const JobSpec plain = parse("{}").spec;
    EXPECT_EQ(plain.resources.memory, 0);
    EXPECT_EQ(to_json(plain).find("memory"), std::string::npos) << "older ledgers have none";
    EXPECT_EQ(
        problem(R"({"memory": "lots"})"),
        "resources.memory is \"lots\"; allowed: a size such as 512MiB, 4G or 5GB, at least 1MiB");
    EXPECT_EQ(problem(R"({"memory": "4"})"), "resources.memory is \"4\"; allowed: at least 1MiB");
    EXPECT_EQ(problem(R"({"cpus": 0})"), "resources.cpus is 0; allowed: an integer, 1 to 4096");
    const auto log_size = [](const Json& size) {
        const Json job = {
            {"name", "x"}, {"kind", "command"}, {"command", {"true"}}, {"log_size", size}};
        const ParsedJob parsed = check_job(job, "/");
        return parsed.ok() ? "" : parsed.problems[0].message;
    };
    EXPECT_EQ(log_size("0"), "");
    EXPECT_EQ(
        log_size(0),
        "is 0; allowed: a size such as 512MiB, 4G, 5GB or \"0\", in quotes if it has no unit");
}

TEST(JobResources, ARankHasSlotsPerRankSlots) {
    EXPECT_EQ(ranks_on_node(0, 8, 2), 4);
    EXPECT_EQ(ranks_on_node(3, 8, 1), 3);
    EXPECT_EQ(ranks_on_node(Json::parse(R"({"gpus_per_node": 0.5})")), 1);
    EXPECT_EQ(ranks_on_node(Json::parse(R"({"slots_per_node": 6, "slots_per_rank": 3})")), 2);
    EXPECT_EQ(ranks_on_node(Json::object()), 1);
    EXPECT_EQ(problem(R"({"slots_per_node": 2, "slots_per_rank": 2})"),
              "resources.slots_per_rank is 2 in a job of kind command; allowed only in a job of "
              "kind train or resume");
    EXPECT_EQ(problem(R"({"slots_per_node": 4, "slots_per_rank": 3})"),
              "resources.slots_per_rank is 3; allowed: a divisor of slots_per_node 4");
    EXPECT_EQ(problem(R"({"gpus_per_node": 2, "slots_per_rank": 2})"),
              "resources.slots_per_rank is 2 with gpus_per_node 2; allowed only without GPUs, "
              "because each GPU has one rank");
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
    const ParsedJob job =
        check_job(Json::parse(R"({"name": "x", "kind": "command", "command": ["true"],
                        "retry": {"infra": "unlimited", "app": 0}})"),
                  "/");
    ASSERT_TRUE(job.ok());
    EXPECT_GE(job.spec.retry.infra, 1'000'000'000);
    EXPECT_EQ(job.spec.retry.app, 0);
}

TEST(JobRetry, ACommandThatFailedIsNotRunAgainUnlessItsFileSaysSo) {
    const auto app = [](const std::string& retry) {
        return check_job(Json::parse(R"({"name": "x", "kind": "command", "command": ["false"])" +
                                     retry + "}"),
                         "/")
            .spec.retry.app;
    };
    EXPECT_EQ(app(""), 0);
    EXPECT_EQ(app(R"(, "retry": {"infra": 3})"), 0);
    EXPECT_EQ(app(R"(, "retry": {"app": 2})"), 2);
}

}  // namespace
}  // namespace roll::spec
