#include "cli/job_file.hpp"

#include <gtest/gtest.h>

namespace roll::cli {
namespace {

TEST(JobOptions, SetPutsTypedValuesAtAPath) {
    Json document = {{"train", {{"steps", 5}}}};
    JobOptions options;
    options.sets = {"train.steps=600", "train.optimizer.lr=3e-3", "export=none", "name=a=b"};
    ASSERT_TRUE(apply_options(options, document));
    EXPECT_EQ(document, Json::parse(R"({"train": {"steps": 600, "optimizer": {"lr": 0.003}},
                                        "export": "none", "name": "a=b"})"));
}

TEST(JobOptions, RefusesASetThatGoesThroughAValue) {
    for (const char* set : {"train", "=5", "train.steps.x=1", "train..steps=1"}) {
        Json document = {{"train", {{"steps", 5}}}};
        JobOptions options;
        options.sets = {set};
        EXPECT_FALSE(apply_options(options, document)) << set;
    }
}

TEST(JobOptions, WinOverTheFile) {
    Json document = {{"name", "old"}, {"resources", {{"slots_per_node", 1}, {"nodes", 2}}}};
    JobOptions options;
    options.name = "new";
    options.slots = 4;
    options.time = "90s";
    options.after = {"ok:3"};
    options.hold = true;
    ASSERT_TRUE(apply_options(options, document));
    EXPECT_EQ(document, Json::parse(R"({"name": "new", "hold": true, "after": ["ok:3"],
        "resources": {"slots_per_node": 4, "nodes": 2, "time": "90s"}})"));
}

TEST(Directives, AreTheCommentsAtAScriptsHead) {
    const auto options = read_directives(
        "#!/bin/sh\n# a remark\n#ROLL --slots 2 --time '1h 30m'\n\n#ROLL --after ok:3\n"
        "#ROLL --after any:4 --set env.X=1\n#ROLLING on\necho\n#ROLL --slots 8\n",
        "a.sh");
    ASSERT_TRUE(options) << options.error().message;
    EXPECT_EQ(options->slots, 2);
    EXPECT_EQ(options->time, "1h 30m");
    EXPECT_EQ(options->after, (std::vector<std::string>{"ok:3", "any:4"}));
    EXPECT_EQ(options->sets, (std::vector<std::string>{"env.X=1"}));
}

TEST(Directives, NameTheLineThatIsWrong) {
    const auto options = read_directives("#!/bin/sh\n#ROLL --slots 2\n#ROLL --slot 2\n", "a.sh");
    ASSERT_FALSE(options);
    EXPECT_TRUE(options.error().message.starts_with("a.sh:3: ")) << options.error().message;
}

TEST(ParseSources, ReportsTheProblemsOfEveryFile) {
    const std::vector<Source> sources = {
        {"a.yaml", Json::parse(R"({"kind": "command"})"), "/"},
        {"b.yaml", Json::parse(R"({"name": "b", "kind": "comand"})"), "/"}};
    const auto specs = parse_sources(sources);
    ASSERT_FALSE(specs);
    EXPECT_EQ(specs.error().message,
              "a.yaml cannot be queued:\n"
              "  name is missing; allowed: 1 to 64 letters, digits, dots, dashes and underscores, "
              "starting with a letter or digit\n"
              "  command is missing; allowed: a list\n"
              "b.yaml cannot be queued:\n"
              "  kind is \"comand\"; allowed: train, resume, tokenize, convert, merge or command; "
              "did you "
              "mean command?");
}

TEST(ParseSources, RefusesBytesThatAreNoTextByTheirPath) {
    const auto argument = parse_sources({command_source({"echo", "ok", "\xff\xfe"})});
    ASSERT_FALSE(argument);
    EXPECT_NE(argument.error().message.find("command[2] is \""), std::string::npos)
        << argument.error().message;
    EXPECT_NE(argument.error().message.find("allowed: UTF-8 text"), std::string::npos);
    const std::string latin1 = "na\xefve";
    EXPECT_FALSE(parse_sources({{"a.yaml", {{latin1, 1}}, "/"}}));
    EXPECT_FALSE(parse_sources({{"a.yaml", {{"name", latin1}}, "/"}}));
    EXPECT_TRUE(parse_sources({command_source({"echo", "na\u00efve \u65e5"})}));
}

TEST(CommandSource, NamesTheJobAfterItsProgram) {
    EXPECT_EQ(command_source({"/usr/bin/env", "x"}).document["name"], "env");
    EXPECT_EQ(command_source({"./-odd name!"}).document["name"], "command");
    EXPECT_TRUE(parse_sources({command_source({"a b"})}));
}

}  // namespace
}  // namespace roll::cli
