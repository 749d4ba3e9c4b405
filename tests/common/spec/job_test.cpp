#include "common/spec/job/job.hpp"

#include <gtest/gtest.h>

#include "common/json.hpp"
#include "common/spec/check/document_size.hpp"
#include "common/spec/job/export_job.hpp"
#include "common/spec/schema/problem.hpp"
#include "common/spec/train/convert.hpp"

namespace roll::spec {
namespace {

JobSpec full_spec() {
    JobSpec spec;
    spec.name = "kjv";
    spec.kind = JobKind::Resume;
    spec.resources = {2, 4, 8, std::chrono::seconds(90)};
    spec.resources.gpu_percent = 50;
    spec.resources.segment = 2;
    spec.resources.spares = 1;
    spec.resources.memory = 5LL << 30;
    spec.resources.cpus = 3;
    spec.resources.slots_per_rank = 2;
    spec.variants = {Resources{}, spec.resources};
    spec.after = {{After::Condition::Any, JobId{3}}, {After::Condition::Failed, JobId{4}, true}};
    spec.retry = {5, 2};
    spec.priority = -7;
    spec.hold = true;
    spec.output = "/runs/kjv-{id}";
    spec.source_job = JobId{12};
    spec.export_document = R"({"convert":{"dtype":"bf16","to":"hf"}})";
    spec.document = R"({"kind":"resume"})";
    return spec;
}

TEST(JobSpecJson, KeepsEveryField) {
    const JobSpec spec = full_spec();
    const auto read = job_spec_from_json(to_json(spec));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, spec);
    EXPECT_EQ(*job_spec_from_json(to_json(JobSpec{})), JobSpec{});
}

TEST(JobSpecJson, RefusesAMissingAndAnUnknownField) {
    Json json = Json::parse(to_json(full_spec()));
    json.erase("retry");
    EXPECT_FALSE(job_spec_from_json(json.dump()));
    json = Json::parse(to_json(full_spec()));
    json["colour"] = "blue";
    ASSERT_FALSE(job_spec_from_json(json.dump()));
    EXPECT_EQ(job_spec_from_json(json.dump()).error().message, "job: unknown field colour");
}

TEST(JobKind, NamesReadBackAsTheKind) {
    for (const auto kind : {JobKind::Train, JobKind::Resume, JobKind::Tokenize, JobKind::Convert,
                            JobKind::Merge, JobKind::Command}) {
        EXPECT_EQ(parse_kind(name_of(kind)), kind);
    }
    EXPECT_FALSE(parse_kind("training"));
}

TEST(ExportJob, ConvertsTheParentsCheckpointBesideItsCheckpoints) {
    const JobSpec parent = full_spec();
    const JobSpec job = export_job(parent, JobId{9});
    EXPECT_EQ(job.kind, JobKind::Convert);
    EXPECT_EQ(job.source_job, JobId{9});
    EXPECT_EQ(job.output, "/runs/kjv-9/export");
    const auto convert = convert_spec(job.document.text());
    ASSERT_TRUE(convert) << convert.error().message;
    EXPECT_EQ(convert->source, "");
    EXPECT_EQ(convert->target, "/runs/kjv-9/export/hf");
    EXPECT_EQ(convert->to, "hf");
    EXPECT_EQ(convert->dtype, "bf16");
    EXPECT_EQ(export_job(parent, JobId{9}), job);
}

std::string told(const Json& document) {
    std::string all;
    for (const Problem& problem : undeliverable(document))
        all += problem.path + " " + problem.message + "\n";
    return all;
}

TEST(Undeliverable, NamesTheArgumentThatTheKernelRefuses) {
    const std::string longest(kArgumentBytesMax, 'x');
    EXPECT_EQ(told({{"command", {"sh", longest}}, {"env", {{"A", "b"}, {"N", 1}}}}), "");
    EXPECT_TRUE(told({{"command", {"sh", longest + "x"}}})
                    .starts_with("command[1] has 131072 bytes; allowed: at most 131071 "));
    EXPECT_TRUE(told({{"env", {{"A", longest}}}}).starts_with("env.A has 131073 bytes; "));
    EXPECT_TRUE(told({{"check", {{"command", {"x", longest + "x"}}}}})
                    .starts_with("check.command[1] has 131072 bytes; "));
    EXPECT_TRUE(told({{"command", std::vector<std::string>(13, longest)}})
                    .starts_with("command and env have 170404"));
    EXPECT_EQ(told({{"command", {""}}}), "command[0] is empty; allowed: the name of a program\n");
}

TEST(Undeliverable, NamesTheFieldThatMakesADocumentTooLarge) {
    EXPECT_EQ(told({{"script", std::string(4'000'000, 'x')}}), "");
    const std::string quotes(3'000'000, '"');  // each quote takes two bytes of the document
    const std::string problem = told({{"name", "x"}, {"train", {{"prompts", {"a", quotes}}}}});
    EXPECT_TRUE(
        problem.starts_with("train.prompts[1] is 6000003 bytes long, so the whole job is 6000"))
        << problem;
    EXPECT_NE(problem.find("a job may have at most 4194304"), std::string::npos);
    EXPECT_EQ(told(Json::array()), "");
}

}  // namespace
}  // namespace roll::spec
