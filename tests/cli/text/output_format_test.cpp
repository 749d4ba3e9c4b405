#include "cli/text/output_format.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "cli/show/job_view.hpp"
#include "cli/text/render.hpp"

namespace roll::cli {
namespace {

const Time kRenderedAt = *parse_time("2026-11-21T10:00:00.000Z");

Json two_jobs() {
    return Json::parse(R"([
        {"id": 7, "name": "na\u00efve", "state": "running", "resources": {"nodes": 2},
         "started_at": "2026-11-21T09:58:55.000Z", "progress": "{\"step\": 120}"},
        {"id": 12, "name": "long-name", "state": "failed", "reason": "exit 3"}])");
}

std::string shown(const std::string& format, const std::string& file = "") {
    const auto parsed = parse_format(format, job_fields(), file);
    return parsed ? jobs_text(two_jobs(), *parsed, {kRenderedAt}) : parsed.error().message;
}

TEST(OutputFormat, AListOfFieldsIsATable) {
    EXPECT_EQ(shown("id,state"),
              "id  state\n"
              "7   running\n"
              "12  failed\n");
    EXPECT_EQ(jobs_text(Json::array(), *parse_format("id,name", job_fields(), ""), {kRenderedAt}),
              "id  name\n");
}

TEST(OutputFormat, APatternIsALineOfEachRow) {
    EXPECT_EQ(shown("{id} {state}"), "7 running\n12 failed\n");
    EXPECT_EQ(shown("{id:>4}|{name:<6}|{name:^7.4}|{{{state:.3}}}"),
              "   7|na\u00efve | na\u00efv  |{run}\n  12|long-name| long  |{fai}\n");
    EXPECT_EQ(shown("{resources.nodes}{progress.step:>5}{time:>8}"),
              "2  120  1m 05s\n             \n");
    EXPECT_EQ(shown("{info}"), "step 120\nexit 3\n");
}

TEST(OutputFormat, WideCharactersTakeTwoColumns) {
    Json jobs = two_jobs();
    jobs[0]["name"] = "保存";
    const auto format = parse_format("{name:<6}|{name:.3}|", job_fields(), "");
    EXPECT_EQ(jobs_text(jobs, *format, {kRenderedAt}), "保存  |保|\nlong-name|lon|\n");
}

TEST(OutputFormat, AsksForNoFieldThatItDoesNotShow) {
    EXPECT_EQ(asked_fields(*parse_format("{id}{resources.nodes}", job_fields(), "")),
              (std::vector<std::string>{"id", "resources"}));
    EXPECT_EQ(asked_fields(*parse_format("id,time", job_fields(), "")),
              (std::vector<std::string>{"ended_at", "id", "started_at", "submitted_at"}));
}

TEST(OutputFormat, RefusesWhatARowDoesNotHaveInOneSentence) {
    const auto unknown = parse_format("id,stat", job_fields(), "");
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(unknown.error().message,
              "-o id,stat: a job has no field stat; did you mean `state`?");
    EXPECT_TRUE(unknown.error().hint.starts_with(
        "separate the fields by commas, or put each field in braces; fields: id"));
    EXPECT_EQ(shown("{id} {stat}"),
              "-o {id} {stat}: a job has no field stat; did you mean `state`?");
    EXPECT_EQ(shown("{id"), "-o {id: unmatched brace");
    EXPECT_EQ(shown("{id} }"), "-o {id} }: unmatched brace");
    EXPECT_EQ(shown("{id:wide}"), "-o {id:wide}: {id:wide} is not a valid field");
    EXPECT_EQ(shown("{id:.x}"), "-o {id:.x}: {id:.x} is not a valid field");
    EXPECT_FALSE(parse_format("id,", job_fields(), ""));
    EXPECT_TRUE(parse_format("", job_fields(), "")->fields.empty());
}

TEST(OutputFormat, NamesAreInAFileOfTheUsers) {
    std::string file = "/tmp/roll-formats-XXXXXX";
    ::close(::mkstemp(file.data()));
    std::ofstream(file) << "jobs: {short: '{id} {state}', wide: 'id,name', id: name, odd: '{x}'}\n"
                           "nodes: [1]\n";
    EXPECT_EQ(shown("short", file), "7 running\n12 failed\n");
    EXPECT_EQ(shown("wide", file), shown("id,name"));
    EXPECT_EQ(shown("id", file), "id\n7\n12\n") << "a field first";
    EXPECT_EQ(shown("odd", file), "-o {x}: a job has no field x");
    EXPECT_EQ(shown("none", file), "-o none: a job has no field none");
    EXPECT_NE(format_help(job_fields(), file)->find("\nshort: {id} {state}\n"), std::string::npos);
    EXPECT_EQ(parse_format("short", node_fields(), file).error().message,
              file + ": nodes is not a mapping from names to formats");
    std::filesystem::remove(file);
}

TEST(OutputFormat, NodesHaveTheirOwnFields) {
    const Json nodes = Json::parse(
        R"([{"node": "n1", "slots": 4, "slots_free": 3, "draining": true, "heard_ms_ago": 1500}])");
    const auto format =
        parse_format("{node} {slots_free}/{slots} {state} {heard}", node_fields(), "");
    EXPECT_EQ(nodes_text(nodes, *format), "n1 3/4 draining 2s ago\n");
    const Json silent = Json::parse(R"([{"node": "n1", "silent": true, "heard_ms_ago": 37000}])");
    EXPECT_EQ(nodes_text(silent, *parse_format("{state} {heard}", node_fields(), "")),
              "silent 37s ago\n");
    const Json both = Json::parse(R"([{"node": "n1", "silent": true, "draining": true}])");
    EXPECT_EQ(nodes_text(both, *parse_format("{state}", node_fields(), "")), "silent\n")
        << "a node that stopped may still be draining for rolld";
    const Json ended = Json::parse(R"([{"node": "n1", "slots": 0, "wall": "cgroup"}])");
    EXPECT_EQ(nodes_text(ended, *parse_format("{state} {wall}", node_fields(), "")),
              "ended cgroup\n");
    EXPECT_FALSE(parse_format("kind", node_fields(), ""));
}

}  // namespace
}  // namespace roll::cli
