#include "cli/submit/job_file.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "cli/job/options.hpp"
#include "cli/job/toml_file.hpp"
#include "cli/submit/job_sizes.hpp"

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

TEST(JobFile, OfJsonIsRefusedIfAKeyIsThereTwice) {
    const auto problem = [](const char* text) {
        const auto sources = job_sources(text, "/job.json");
        return sources ? "" : sources.error().message;
    };
    EXPECT_EQ(problem(R"({"name": "a", "train": {"lr": 1}, "data": {"lr": 2}})"), "");
    EXPECT_EQ(problem("{\"name\": \"a\"}\n{\"name\": \"b\", \"env\": {\"A\": 1, \"A\": 2}}\n"),
              "/job.json:2: duplicate key A");
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

TEST(JobOptions, HaveANoteOnAttentionOnlyIfSomebodySetIt) {
    const auto notes = [](bool stored, std::vector<std::string> sets) {
        Source source{.label = "x",
                      .document = {{"kind", "train"},
                                   {"objective", "sft"},
                                   {"data", {{"attention", "across_documents"}}}},
                      .base = "/",
                      .stored = stored};
        JobOptions options;
        options.sets = std::move(sets);
        EXPECT_TRUE(apply_options(options, source));
        return source.notes.size();
    };
    EXPECT_EQ(notes(false, {}), 1);
    EXPECT_EQ(notes(true, {}), 0) << "the default in the document of a queued job";
    EXPECT_EQ(notes(true, {"data.attention=across_documents"}), 1);
}

TEST(Directives, AreTheCommentsAtAScriptsHead) {
    const auto options = read_directives(
        "#!/bin/sh\n# a remark\n#ROLL --slots 2 --time '1h 30m'\n\n#ROLL --after ok:3\n"
        "#ROLL --after any:4 --set env.X=1\n#ROLL --verify-data\n#ROLLING on\necho\n#ROLL --slots "
        "8\n",
        "a.sh");
    ASSERT_TRUE(options) << options.error().message;
    EXPECT_EQ(options->slots, 2);
    EXPECT_EQ(options->time, "1h 30m");
    EXPECT_EQ(options->after, (std::vector<std::string>{"ok:3", "any:4"}));
    EXPECT_EQ(options->sets, (std::vector<std::string>{"env.X=1", "data.verify=true"}));
}

TEST(Directives, NameTheLineThatIsWrong) {
    const auto options = read_directives("#!/bin/sh\n#ROLL --slots 2\n#ROLL --slot 2\n", "a.sh");
    ASSERT_FALSE(options);
    EXPECT_TRUE(options.error().message.starts_with("a.sh:3: ")) << options.error().message;
}

// Settings override each other in this order: file, ROLL_SUBMIT, command line.
TEST(Environment, WinsOverTheFileAndNotOverTheCommandLine) {
    ::setenv("ROLL_SUBMIT", "--slots 2 --name 'from env' --set train.steps=7", 1);
    const auto options = options_of_environment();
    ASSERT_TRUE(options) << options.error().message;
    Json document = {{"name", "file"}, {"train", {{"steps", 5}}}};
    JobOptions line;
    line.name = "line";
    ASSERT_TRUE(apply_options(*options, document));
    ASSERT_TRUE(apply_options(line, document));
    EXPECT_EQ(document, Json::parse(R"({"name": "line", "train": {"steps": 7},
                                        "resources": {"slots_per_node": 2}})"));
    ::setenv("ROLL_SUBMIT", "--slot 2", 1);
    EXPECT_TRUE(options_of_environment().error().message.starts_with("ROLL_SUBMIT: "));
    ::unsetenv("ROLL_SUBMIT");
    EXPECT_TRUE(options_of_environment()->sets.empty());
}

TEST(Toml, IsReadAsTheSameDocument) {
    const auto read = read_toml(
        "name = 'a'\nkind = \"train\"\nbegin = 2026-11-22T08:00:00Z\n"
        "[resources]\nnodes = 2\ngpus_per_node = 0.5\n"
        "[train]\noptimizer = {lr = 3e-3, betas = [1, -2]}\ndeterministic = true\n"
        "[[then]]\nname = 'b'\n",
        "a.toml");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->document, Json::parse(R"({"name": "a", "kind": "train",
        "begin": "2026-11-22T08:00:00Z", "resources": {"nodes": 2, "gpus_per_node": 0.5},
        "train": {"optimizer": {"lr": 0.003, "betas": [1, -2]}, "deterministic": true},
        "then": [{"name": "b"}]})"));
    EXPECT_EQ(read->lines.at("resources.gpus_per_node"), 6);
    EXPECT_EQ(read->lines.at("train.optimizer.lr"), 8);
    EXPECT_EQ(read->lines.at("then[0].name"), 11);
}

TEST(Toml, ProblemsHaveTheirLines) {
    const auto read = read_toml("name = 'a'\nkind = \n", "a.toml");
    ASSERT_FALSE(read);
    EXPECT_TRUE(read.error().message.starts_with("a.toml:2: not TOML: ")) << read.error().message;
    const auto toml =
        read_toml("name = 'a'\nkind = 'command'\ncommand = ['true']\nslots = 1\n", "");
    const auto specs = parse_sources({{"a.toml", toml->document, "/", toml->lines}});
    ASSERT_FALSE(specs);
    EXPECT_NE(specs.error().message.find("line 4: slots"), std::string::npos)
        << specs.error().message;
}

TEST(ParseSources, NamesTheJobsOfStandardInput) {
    const auto told = [](const std::string& text) {
        const auto sources = job_sources(text, "-");
        const auto specs = parse_sources(*sources);
        return specs ? "" : specs.error().message.substr(0, specs.error().message.find(':'));
    };
    EXPECT_EQ(told(R"({"name": "x"})"), "job x cannot be queued");
    EXPECT_EQ(told("kind: train\n"), "standard input cannot be queued");
    EXPECT_EQ(told("name: x\n---\nname: [y]\n"), "job x cannot be queued");
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
    EXPECT_TRUE(parse_sources(sources, /*queues=*/false)
                    .error()
                    .message.starts_with("a.yaml is not a valid job:\n"));
}

TEST(ParseSources, RefusesBytesThatAreNoTextByTheirPath) {
    const auto argument = parse_sources({*command_source({"echo", "ok", "\xff\xfe"})});
    ASSERT_FALSE(argument);
    EXPECT_NE(argument.error().message.find("command[2] is \""), std::string::npos)
        << argument.error().message;
    EXPECT_NE(argument.error().message.find("allowed: UTF-8 text"), std::string::npos);
    const std::string latin1 = "na\xefve";
    EXPECT_FALSE(parse_sources({{"a.yaml", {{latin1, 1}}, "/"}}));
    EXPECT_FALSE(parse_sources({{"a.yaml", {{"name", latin1}}, "/"}}));
    EXPECT_TRUE(parse_sources({*command_source({"echo", "na\u00efve \u65e5"})}));
}

// Returns the error of a job file with this text.
std::string refusal_of(const std::string& text) {
    const std::string file = testing::TempDir() + "roll-large.yaml";
    std::ofstream(file) << text;
    const auto sources = read_job_file(file);
    std::remove(file.c_str());
    return sources ? "" : sources.error().message.substr(file.size());
}

TEST(ReadJobFile, NamesTheFieldThatMakesAJobTooLargeBeforeParsing) {
    const std::string head = "name: x\nkind: command\n";
    const std::string large(9 << 20, 'x');
    EXPECT_EQ(
        refusal_of(head + "env:\n  A: b\n  LONG: '" + large + "'\n  B: c\ncommand: [a]\n"),
        " cannot be queued:\n  line 5: env.LONG is 9437188 bytes long, so the whole job is 9437249 "
        "bytes long; a job may have at most 4194304; move this value to a file that the job reads");
    const auto names = [&](const std::string& text, const std::string& field) {
        const std::string refused = refusal_of(text);
        EXPECT_NE(refused.find(field + " is "), std::string::npos) << refused << " for " << field;
    };
    names("# A comment\n--- # another\n" + head + "script: |-\n  #!/bin/sh\n  env:\n  #" + large +
              "\n\n  exit: 1\nenv: {}\n",
          "line 5: script");
    names("{\n  \"name\": \"x\",\n  \"env\": {\n    \"LONG\": \"" + large + "\"\n  }\n}\n",
          "line 4: env.LONG");
    names(head + "then:\n- name: y\n  script: " + large + "\n", "line 5: then.script");
    names(head + "---\n" + head + "command:\n- sh\n- " + large + "\n", "line 6: command");
    names("[" + large + "]", "a value");
}

TEST(ReadJobFile, RefusesADevice) {
    const auto sources = read_job_file("/dev/zero");
    ASSERT_FALSE(sources);
    EXPECT_EQ(sources.error().message,
              "/dev/zero is a device; allowed: a job file (YAML, JSON or TOML) or a script "
              "that starts with #!");
}

TEST(ReadJobFile, TellsHowAProgramIsSubmitted) {
    const auto hint = [](const Result<std::vector<Source>>& read) {
        EXPECT_FALSE(read);
        return read ? "" : read.error().hint;
    };
    const char* const program = "rollctl submit -- PROGRAM ARGUMENT... submits a program";
    EXPECT_EQ(hint(read_job_file("no-such-program")), program);
    EXPECT_EQ(hint(read_job_file("no-such-job.yaml")), "");
    EXPECT_EQ(hint(job_sources("import sys\nif a: b = {1: 2\n", "train.py")), program);
    EXPECT_EQ(hint(job_sources("a: b: c\n", "train.yaml")), "");
}

TEST(ReadJobFile, AppliesTheLimitToEachJobOfAFile) {
    const std::string line = R"({"name": "x", "script": ")" + std::string(3 << 20, 'x') + "\"}\n";
    EXPECT_EQ(refusal_of(line + line + line), "");
    const std::string refused = refusal_of("script: " + std::string(4 << 20, 'x') +
                                           "\n---\nscript: " + std::string(9 << 20, 'x') + "\n");
    EXPECT_NE(refused.find("line 3: script is 9437186 bytes long, so the whole job is 9437197 "),
              std::string::npos)
        << refused;
}

// The limit applies to the values. Up to twice its size, a file may have comments and indentation.
TEST(CheckSizes, RefusesByTheValuesWithoutParsing) {
    const auto refused = [](const std::string& text) {
        const auto checked = check_sizes("name: x\n" + text, "a.yaml");
        return checked ? "" : checked.error().message;
    };
    const std::string large(5 << 20, 'x');
    EXPECT_EQ(
        refused("script: " + large + "\n"),
        "a.yaml cannot be queued:\n  line 2: script is 5242882 bytes long, so the whole job "
        "is 5242897 bytes long; a job may have at most 4194304; move this value to a file that the "
        "job reads");
    const auto times = [](const std::string& text, std::size_t size) {
        std::string all;
        while (all.size() < size) all += text;
        return all;
    };
    EXPECT_NE(refused("script: |\n" + times("  # a comment of the script\n", 5 << 20)), "");
    EXPECT_NE(refused("env:\n  TEXT: '" + times("prose with single spaces ", 5 << 20) + "'\n"), "");
    EXPECT_EQ(refused(times("# a comment\n", 7 << 20)), "");
    EXPECT_EQ(refused("env: {}  # " + large + "\n"), "");
    EXPECT_EQ(refused("command:\n" + times(std::string(200, ' ') + "- x\n", 7 << 20)), "");
    EXPECT_EQ(refused("env:\n  TEXT: \"" + times("\\u0041", 7 << 20) + "\"\n"), "");
}

TEST(SetKey, ALengthOfATrainingReplacesTheOther) {
    Json document = Json::parse(R"({"train": {"steps": 5, "seed": 1}})");
    ASSERT_TRUE(set_key(document, "train.epochs=2"));
    EXPECT_EQ(document.dump(), R"({"train":{"epochs":2,"seed":1}})");
    ASSERT_TRUE(set_key(document, "train.steps=7"));
    EXPECT_EQ(document.dump(), R"({"train":{"seed":1,"steps":7}})");
}

TEST(JobOptions, NameTheOptionOfAWrongTime) {
    JobOptions options;
    options.begin = "now+5";
    Json document = Json::object();
    const auto wrong = apply_options(options, document);
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().message,
              "--begin is now+5; allowed: a time such as 2026-11-22T08:00:00Z, "
              "2026-11-22T08:00+01:00 or 2026-11-22, or a duration from now such as +2h or "
              "+1-12:00:00");
    options.begin = "+1e20w";
    EXPECT_TRUE(apply_options(options, document).error().message.starts_with("--begin is +1e20w;"));
    EXPECT_EQ(duration_of("--expires", "1e9w").error().message,
              "--expires is 1e9w; allowed: a duration such as 90s, 1h 30m, 1-12:00:00 or HH:MM:SS");
    EXPECT_EQ(duration_of("--expires", "2m"), std::chrono::seconds(120));
}

TEST(CommandSource, NamesTheJobAfterItsProgram) {
    EXPECT_EQ(command_source({"/usr/bin/env", "x"})->document["name"], "env");
    EXPECT_EQ(command_source({"./-odd name!"})->document["name"], "command");
    EXPECT_TRUE(parse_sources({*command_source({"a b"})}));
}

}  // namespace
}  // namespace roll::cli
