#include "common/spec/job/chain.hpp"

#include <gtest/gtest.h>

#include "common/json.hpp"
#include "common/spec/check/check_job.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {
namespace {

ParsedJob parse(const std::string& then) {
    return check_job(
        Json::parse(R"({"name": "a", "kind": "command", "command": ["true"], "then": [)" + then +
                    "]}"),
        "/tmp");
}

std::string document_key(const JobSpec& spec, const char* key) {
    return Json::parse(spec.document.text())[key].dump();
}

TEST(Chain, BecomesJobsInARowThatWaitForEachOther) {
    const ParsedJob parsed = parse(
        R"({"name": "b", "kind": "command", "command": ["cat", "{previous.output}/x",
                  "{a.id}"]},
                 {"name": "c", "kind": "convert", "output": "/c-{id}",
                  "convert": {"source": "{b.output}/in", "target": "out", "to": "hf"}},
                 {"name": "d", "kind": "command", "workdir": "{a.output}",
                  "command": ["ls", "{c.result}"]})");
    ASSERT_TRUE(parsed.ok()) << parsed.problems[0].path << parsed.problems[0].message;
    const std::vector<JobSpec> jobs = chain_of(parsed.spec, JobId{7});
    ASSERT_EQ(jobs.size(), 4u);
    EXPECT_EQ(jobs[0].output, "/tmp/runs/a-7");
    EXPECT_TRUE(jobs[0].then.empty());
    EXPECT_EQ(document_key(jobs[1], "command"), R"(["cat","/tmp/runs/a-7/x","7"])");
    EXPECT_EQ(jobs[1].after, (std::vector<After>{{After::Condition::Ok, JobId{7}}}));
    EXPECT_EQ(jobs[2].output, "/c-9");
    EXPECT_EQ(Json::parse(jobs[2].document.text())["convert"]["source"], "/tmp/runs/b-8/in");
    EXPECT_EQ(document_key(jobs[3], "command"), R"(["ls","/tmp/out"])");
    EXPECT_EQ(document_key(jobs[3], "workdir"), R"("/tmp/runs/a-7")");
    EXPECT_EQ(jobs[3].after, (std::vector<After>{{After::Condition::Ok, JobId{9}}}));
}

TEST(Chain, WaitsForTheExportOfAJobThatTrains) {
    JobSpec train;
    train.name = "t";
    train.kind = JobKind::Train;
    train.output = "/o-{id}";
    train.document = "{}";
    train.export_document = "{}";
    JobSpec next;
    next.name = "n";
    next.output = "/n";
    next.document = R"({"command": ["x", "{t.result}"], "quote": "{\"t.result\"}"})";
    train.then = {next};
    const std::vector<JobSpec> jobs = chain_of(train, JobId{3});
    EXPECT_EQ(jobs[1].after, (std::vector<After>{{After::Condition::Exported, JobId{3}}}));
    EXPECT_EQ(document_key(jobs[1], "command"), R"(["x","/o-3/export/hf"])");
    EXPECT_EQ(document_key(jobs[1], "quote"), R"("{\"t.result\"}")") << "no name: left alone";
}

TEST(Chain, ItsFirstJobCanNameNone) {
    const ParsedJob parsed = check_job(
        Json::parse(R"({"name": "a", "kind": "command", "command": ["cat", "{previous.output}/x"],
                        "then": [{"name": "b", "kind": "command", "command": ["true"]}]})"),
        "/tmp");
    ASSERT_EQ(parsed.problems.size(), 1u);
    EXPECT_EQ(parsed.problems[0].message,
              "refers to {previous.output}, but is the first job of the chain");
}

TEST(Chain, NamesThatLeadNowhereAreAllReported) {
    const ParsedJob parsed =
        parse(R"({"name": "b", "kind": "command", "command": ["{z.id}", "{a.result}"]},
                 {"name": "c", "kind": "command", "command": ["x"], "array": "0-3"},
                 {"name": "d", "kind": "command", "command": []})");
    std::string all;
    for (const Problem& problem : parsed.problems)
        all += problem.path + " " + problem.message + "\n";
    EXPECT_NE(all.find("then[2].command"), std::string::npos) << all;
    const ParsedJob named =
        parse(R"({"name": "b", "kind": "command", "command": ["{z.id}", "{a.result}"]},
                 {"name": "c", "kind": "command", "command": ["x"], "array": "0-3"})");
    ASSERT_EQ(named.problems.size(), 3u);
    EXPECT_EQ(named.problems[0].message,
              "refers to {z.id}, but no earlier job of the chain is named z; allowed: `previous`, "
              "or an earlier job's name");
    EXPECT_EQ(named.problems[1].message,
              "refers to {a.result}, but a makes no model; allowed: {a.output}");
    EXPECT_EQ(named.problems[2].path, "then[1]");
}

TEST(Chain, AProblemOfAWholeJobHasTheJobAsItsSubject) {
    const ParsedJob parsed = parse(R"(5, {"zz1": 1, "zz2": 1, "zz3": 1, "zz4": 1, "zz5": 1})");
    std::vector<std::string> found;
    for (const Problem& problem : parsed.problems)
        if (sentence(problem).starts_with("then[0]") || problem.path == "then[1]")
            found.push_back(sentence(problem));
    EXPECT_EQ(found,
              (std::vector<std::string>{"then[0] is 5; allowed: a mapping",
                                        "then[1] has unknown keys: zz1, zz2, zz3, zz4, zz5"}));
}

TEST(Chain, TravelsWithItsSpec) {
    const JobSpec spec = parse(R"({"name": "b", "kind": "command", "command": ["x"]})").spec;
    EXPECT_EQ(*job_spec_from_json(to_json(spec)), spec);
    EXPECT_EQ(spec.then.size(), 1u);
}

}  // namespace
}  // namespace roll::spec
