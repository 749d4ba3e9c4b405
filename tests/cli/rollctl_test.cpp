// Runs rollctl itself, without a daemon, and checks its output and exit status.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "common/json.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::cli {
namespace {

struct Ended {
    int status = 0;
    std::string output;
};

class Rollctl : public ::testing::Test {
  protected:
    // Runs `rollctl ARGUMENTS` in a shell, in the test's own directory and state directory.
    Ended run(const std::string& arguments) const { return run_program(ROLLCTL, arguments); }

    Ended run_program(const std::string& program, const std::string& arguments) const {
        const std::string command = "cd " + base + " && ROLL_DIR=" + base + "/state NO_COLOR=1 " +
                                    program + " " + arguments + " 2>&1 </dev/null";
        Ended ended;
        FILE* pipe = ::popen(command.c_str(), "r");
        std::array<char, 4096> buffer{};
        while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
            ended.output += buffer.data();
        }
        ended.status = WEXITSTATUS(::pclose(pipe));
        return ended;
    }

    TemporaryFolder temporary_;
    std::string base = temporary_.string();
};

TEST_F(Rollctl, SaysWhatIsWrongWithAnOption) {
    EXPECT_NE(run("submit --priority high -- true").output.find("--priority is high; allowed: a w"),
              std::string::npos);
    const std::string unknown = run("submit --slot 2 -- true").output;
    EXPECT_NE(unknown.find("--slot; did you mean `--slots`?"), std::string::npos) << unknown;
    EXPECT_NE(run("up --slots 0").output.find("--slots is 0; allowed: a number above 0\n"),
              std::string::npos);
    EXPECT_NE(run("data preview x.csv").output.find("x.csv, which Roll does not read; convert it"),
              std::string::npos);
    EXPECT_NE(run("submit --gpus x -- true").output.find("--gpus is x; allowed: a number\n"),
              std::string::npos);
    EXPECT_NE(run("slurm").output.find("slurm needs the name of a command; allowed: sbatch"),
              std::string::npos);
}

TEST_F(Rollctl, SaysWhatToUseInsteadOfWhatSlurmHas) {
    for (const auto& [arguments, says] : std::map<std::string, std::string>{
             {"submit -N2 -- true", "expected: -N2; --nodes is an option of sbatch; use"},
             {"squeue -u me",
              "command `squeue`, a command of Slurm\n  next: rollctl slurm squeue\n"},
             {"srun hostname", "next: rollctl submit --follow -- PROGRAM ARGUMENT...\n"},
             {"slurm salloc", "no Slurm command `salloc`; allowed: sbatch, squeue, sacct, sca"}})
        EXPECT_NE(run(arguments).output.find(says), std::string::npos) << run(arguments).output;
}

// The layout of a job is chosen before all its problems are listed.
TEST_F(Rollctl, RefusesAJobFileThatIsNotUtf8AlsoIfItsLayoutIsToBeChosen) {
    std::ofstream(base + "/latin1.yaml")
        << "name: na\xefve\nkind: train\nparallel: {layout: auto}\n";
    for (const char* arguments : {"plan latin1.yaml", "submit --dry-run latin1.yaml"}) {
        const Ended ended = run(arguments);
        EXPECT_EQ(ended.status, 2) << ended.output;
        EXPECT_NE(ended.output.find("name is \"na"), std::string::npos) << ended.output;
        EXPECT_NE(ended.output.find("allowed: UTF-8 text"), std::string::npos) << ended.output;
    }
}

TEST_F(Rollctl, RefusesTextWithANul) {
    std::ofstream(base + "/nul.json")
        << R"({"name": "x", "kind": "command", "command": ["echo", "a\u0000b"]})";
    const Ended ended = run("submit --dry-run nul.json");
    EXPECT_EQ(ended.status, 2) << ended.output;
    EXPECT_NE(ended.output.find("command[1] is \"a\\u0000b\"; allowed: text without the character"),
              std::string::npos)
        << ended.output;
}

TEST_F(Rollctl, WithoutADaemonEndsWithFiveAndNamesTheNextCommand) {
    for (const char* arguments :
         {"jobs", "jobs 1 2", "show 1", "cancel 1", "cancel 1 3-9 x", "nodes", "submit -- true",
          "logs 1", "logs 1 2 -f", "events", "metrics 1", "hold 1", "hold 1,2 3", "resume 1"}) {
        const Ended ended = run(arguments);
        EXPECT_EQ(ended.status, 5) << arguments << "\n" << ended.output;
        EXPECT_NE(ended.output.find("next: rollctl up"), std::string::npos) << ended.output;
    }
}

TEST_F(Rollctl, SaysWhichCommandsTakeOneJob) {
    for (const std::string name : {"show", "explain", "metrics"}) {
        const Ended ended = run(name + " 1 2");
        EXPECT_EQ(ended.status, 2) << ended.output;
        EXPECT_NE(ended.output.find("expected: 2; `" + name + "` takes one job"), std::string::npos)
            << ended.output;
    }
}

// The exit status of rollctl's own errors differs from a job's exit code.
TEST_F(Rollctl, WhatEndsWithAJobsExitCodeHasOneForItsOwnTroubles) {
    std::ofstream(base + "/bad.yaml") << "name: x\nkind: train\n";
    for (const char* arguments :
         {"wait 1", "wait", "wait 1 --follow", "submit --wait -- true", "submit --follow -- exit 7",
          "submit bad.yaml --wait", "submit missing.yaml --follow", "submit --wait --colour x",
          "resume 1 --wait", "resubmit 1 --follow --json", "convert a b --submit --wait",
          "merge a b --submit --follow"}) {
        const Ended ended = run(arguments);
        EXPECT_EQ(ended.status, 125) << arguments << "\n" << ended.output;
        EXPECT_FALSE(ended.output.empty()) << arguments;
    }
    EXPECT_EQ(run("submit -- true --wait").status, 5) << "the program's own word";
    EXPECT_EQ(run("submit --hold --colour x").status, 2);
}

TEST_F(Rollctl, ErrorsAreJsonWhenAskedFor) {
    const Ended ended = run("jobs --json");
    EXPECT_EQ(Json::parse(ended.output)["error"]["code"], "unavailable");
    const Ended usage = run("submit --json --colour x");
    EXPECT_EQ(usage.status, 2);
    EXPECT_EQ(Json::parse(usage.output)["error"]["code"], "invalid_argument");
}

TEST_F(Rollctl, UsageErrorsEndWithTwoAndAWayOn) {
    EXPECT_EQ(run("").status, 2);
    const Ended typo = run("sumbit x.yaml");
    EXPECT_EQ(typo.status, 2);
    EXPECT_NE(typo.output.find("unknown command `sumbit`; did you mean `submit`?"),
              std::string::npos);
    const Ended missing = run("show");
    EXPECT_EQ(missing.status, 2);
    EXPECT_NE(missing.output.find("rollctl show --help"), std::string::npos);
    EXPECT_EQ(run("alloc").status, 2);
    EXPECT_NE(run("alloc add q").output.find("--time is required"), std::string::npos);
    const Ended bad = run("alloc add q --time 5m --sbatch-arg x --nodes 0");
    EXPECT_EQ(bad.status, 2);
    EXPECT_NE(bad.output.find("nodes is 0"), std::string::npos);
    EXPECT_EQ(run("alloc add q --time 5m --min-utilization 1.5").status, 2);
    EXPECT_EQ(run("update 1 colour=3").status, 2);
    EXPECT_NE(run("drain").output.find("no node is named; give the name of a node, or --all"),
              std::string::npos);
    EXPECT_EQ(run("submit").status, 2);
}

TEST_F(Rollctl, HelpFitsATerminalOf80Columns) {
    for (const char* command :
         {"", "submit", "shell", "jobs", "nodes", "logs", "metrics", "alloc", "alloc add", "token",
          "compat", "slurm", "slurm squeue", "data preview", "report", "web"}) {
        const Ended help = run(std::string(command) + " --help");
        EXPECT_EQ(help.status, 0) << command;
        EXPECT_NE(help.output.find("Usage: "), std::string::npos) << command;
        std::istringstream lines(help.output);
        for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
    }
    EXPECT_NE(
        run("shell --help")
            .output.find(
                "\n  --file TEXT ...             Small file to send with the command: PATH or\n"
                "                              PATH:NAME; the command finds it in the"),
        std::string::npos);
}

TEST_F(Rollctl, HelpListsTheCommandsInSections) {
    const std::string help = run("--help").output;
    const auto submit = help.find("\nSubmit jobs:\n  submit "),
               watch = help.find("\nWatch jobs:\n"),
               models = help.find("\nModels and checkpoints:\n  convert ");
    ASSERT_NE(models, std::string::npos) << help;
    EXPECT_LT(submit, watch);
    EXPECT_LT(watch, models);
    EXPECT_LT(watch, help.find("\n  jobs "));
    EXPECT_LT(help.find("\n  jobs "), models);
}

TEST_F(Rollctl, BadOptionsOfQueriesAreOneSentenceBeforeADaemonIsAsked) {
    for (const auto& [arguments, sentence] :
         {std::pair{"logs 1 --grep '('", "--grep (: this is not a regular expression: Unmatched"},
          {"logs 1 --since yesterday", "--since is yesterday; allowed: a duration such as 90s"},
          {"logs 1 --tail -3", "--tail is -3; allowed: 0 to 1000000000"},
          {"jobs --since 3", "--since is 3; allowed: a duration"},
          {"tell 1 stop-at-step", "request stop-at-step needs a number, 1 to 112"},
          {"jobs -n 0", "--newest is 0; allowed: 1 to 1000000000"},
          {"jobs --state gone",
           "--state is gone; allowed: queued, running, done, failed, cancelled; did you mean "
           "`done`?"},
          {"report --by colour", "--by is colour; allowed: user, account, kind, week"},
          {"report --since 2026-13-01", "--since is 2026-13-01; allowed"}}) {
        const Ended ended = run(arguments);
        EXPECT_EQ(ended.status, 2) << arguments << "\n" << ended.output;
        EXPECT_NE(ended.output.find(sentence), std::string::npos) << ended.output;
        EXPECT_LE(std::ranges::count(ended.output, '\n'), 2) << ended.output;
    }
}

TEST_F(Rollctl, InvalidJobFilesAreRefusedWithEveryProblemBeforeADaemonIsAsked) {
    std::ofstream(base + "/bad.yaml")
        << "name: x\nkind: train\ntrain: {precision: fp8}\nparallel: {cp: 2, ep: 2}\n";
    const Ended ended = run("submit bad.yaml --set name=.x");
    EXPECT_EQ(ended.status, 2);
    const auto missing = [](const char* key, const char* also = "") {
        return fmt::format(
            "  line 3: train.{} is missing; allowed: an integer, 1 to 1000000000{}\n", key, also);
    };
    EXPECT_EQ(
        ended.output,
        "rollctl: bad.yaml cannot be queued:\n"
        "  --set name is \".x\"; allowed: 1 to 64 letters, digits, dots, dashes and underscores, "
        "starting with a letter or digit\n"
        "  line 4: parallel.ep 2 is not supported yet; supported: 1\n" +
            missing("seq_length") + missing("global_batch_size") +
            missing("micro_batch_size", ", or auto") +
            "  line 3: train.precision fp8 is not supported yet; supported: fp32, fp64, bf16, "
            "fp16\n"
            "  model is missing; allowed: a mapping\n"
            "  data is missing; allowed: a mapping\n"
            "  line 4: parallel tp 1 x pp 1 x cp 2 = 2 does not divide the number of ranks; "
            "resources give 1 node x 1 slot = 1 rank; set resources.slots_per_node to 2\n"
            "  line 3: train.steps is missing; allowed: an integer, 1 to 1000000000, or "
            "train.epochs\n");
    EXPECT_EQ(run("submit missing.yaml").status, 3);
}

TEST_F(Rollctl, AFileWithoutAJobIsRefused) {
    for (const char* text : {"", "\n\n", "# a remark\n", "---\n", "---\n# a remark\n---\n"}) {
        std::ofstream(base + "/empty.yaml") << text;
        const Ended ended = run("submit empty.yaml");
        EXPECT_EQ(ended.status, 2) << text;
        EXPECT_TRUE(ended.output.starts_with("rollctl: empty.yaml contains no job"))
            << ended.output;
    }
    EXPECT_EQ(run("submit -").status, 2);
    EXPECT_EQ(run("plan empty.yaml").status, 2);
}

TEST_F(Rollctl, AConfigurationOfLlamaFactoryIsReadAndItsProblemsHaveLines) {
    std::filesystem::create_directory(base + "/model");
    std::ofstream(base + "/text.txt") << "text";
    std::ofstream(base + "/pt.yaml")
        << "model_name_or_path: model\nstage: pt\ndo_train: true\nfinetuning_type: freeze\n"
           "train_file: text.txt\ncutoff_len: 64\noutput_dir: saves\nlearnin_rate: 1\n"
           "per_device_train_batch_size: 1\nlearning_rate: 1.0e-4\nnum_train_epochs: 3.0\n";
    const Ended ended = run("submit pt.yaml");
    EXPECT_EQ(ended.status, 2);
    const std::string refused = "rollctl: pt.yaml cannot be queued:\n";
    ASSERT_NE(ended.output.find(refused), std::string::npos) << ended.output;
    const std::string told = ended.output.substr(0, ended.output.find(refused));
    EXPECT_NE(told.find("  cutoff_len: train.seq_length 64\n"), std::string::npos) << told;
    EXPECT_NE(told.find("  no effect: do_train: Roll always does what this value says\n"),
              std::string::npos)
        << told;
    EXPECT_TRUE(ended.output.substr(told.size() + refused.size())
                    .starts_with("  line 8: learnin_rate is not a key of the HuggingFace Trainer, "
                                 "TRL, LLaMA-Factory "
                                 "or mcore_adapter; did you mean `learning_rate`?\n"
                                 "  line 4: finetuning_type is freeze; supported: full, lora\n"))
        << ended.output;
}

TEST_F(Rollctl, AFileOfAnotherProgramIsNamedAndItsKeysAreToldOnce) {
    std::ofstream(base + "/sft.yaml")
        << "base_model: meta/llama\ndatasets: identity\nlearning_rate: 1.0e-4\nepochs: 3.0\n"
           "sequence_len: 2048\nval_set_size: 0.1\noutput_dir: saves\nlora_target_linear: true\n"
           "flash_attention: true\nadapter: lora\n";
    const Ended ended = run("submit sft.yaml");
    EXPECT_EQ(ended.status, 2);
    EXPECT_TRUE(ended.output.starts_with(
        "rollctl: sft.yaml cannot be queued:\n"
        "  this is a configuration of axolotl; write a Roll job file (docs/job-file.md)\n"
        "  name is missing; "))
        << ended.output;
    EXPECT_NE(ended.output.find("  it has keys that Roll names differently: "), std::string::npos)
        << ended.output;
}

TEST_F(Rollctl, TellsHowItReadsTheOptionsOfABatchScript) {
    std::ofstream(base + "/job.sh") << "#!/bin/sh\n#SBATCH --gpus=4 --mem=1G\ntrue\n";
    const Ended ended = run("submit --dry-run job.sh a b");
    EXPECT_EQ(ended.status, 0);
    EXPECT_NE(ended.output.find("  --gpus=4: resources.gpus_per_node 4\n"), std::string::npos)
        << ended.output;
    EXPECT_NE(
        ended.output.find("  --mem=1G: resources.memory \"1024MiB\", sbatch.mem_per_node 1024\n"),
        std::string::npos)
        << ended.output;
    const Json shown = Json::parse(ended.output.substr(ended.output.find("\n{\n") + 1));
    EXPECT_EQ(shown["notes"].size(), 3u);
    EXPECT_EQ(shown["jobs"][0]["document"]["command"], Json::parse(R"(["job.sh", "a", "b"])"));
    std::ofstream(base + "/job.sh") << "#!/bin/sh\n#SBATCH --uid=0 --time=5x\ntrue\n";
    const Ended refused = run("submit --dry-run job.sh");
    EXPECT_EQ(refused.status, 2);
    EXPECT_NE(refused.output.find("job.sh:2: --time is \"5x\"; allowed: M, M:S,"),
              std::string::npos)
        << refused.output;
    EXPECT_NE(refused.output.find("job.sh:2: --uid=0: jobs run as the user of rolld"),
              std::string::npos);
}

TEST_F(Rollctl, CompatNeverWritesBesideSlurm) {
    std::filesystem::create_directories(base + "/slurm");
    std::ofstream(base + "/slurm/scontrol") << "Slurm's";
    const Ended refused = run("compat slurm");
    EXPECT_EQ(refused.status, 4);
    EXPECT_NE(refused.output.find("slurm/scontrol exists, and `rollctl compat` did not write it"),
              std::string::npos)
        << refused.output;
    EXPECT_FALSE(std::filesystem::exists(base + "/slurm/sbatch"));
    EXPECT_EQ(run("compat own").status, 0);
    EXPECT_EQ(run("compat own").status, 0);  // its own programs are written again
    EXPECT_TRUE(std::filesystem::exists(base + "/own/squeue"));
}

TEST_F(Rollctl, DryRunShowsTheWholeDocumentOfACommand) {
    const Ended ended = run(
        "submit --dry-run --name n --slots 3 --time '1h 30m' --priority -7 --after ok:4 -- echo "
        "--json '*'");
    ASSERT_EQ(ended.status, 0) << ended.output;
    const Json job = Json::parse(ended.output)["jobs"][0];
    EXPECT_EQ(job["document"]["command"], Json::parse(R"(["echo", "--json", "*"])"));
    EXPECT_EQ(job["resources"]["slots_per_node"], 3);
    EXPECT_EQ(job["resources"]["time_seconds"], 5400);
    EXPECT_EQ(job["priority"], -7);
    EXPECT_EQ(job["after"], Json::parse(R"([{"condition": "ok", "job": 4}])"));
    EXPECT_EQ(job["output"], base + "/runs/n-{id}");
}

TEST_F(Rollctl, AFileTheEnvironmentAndTheCommandLineSetKeysInThisOrder) {
    std::ofstream(base + "/a.toml") << "name = 'a'\nkind = 'command'\ncommand = ['true']\n"
                                       "[resources]\nslots_per_node = 2\nnodes = 2\n";
    const Ended ended = run_program("env ROLL_SUBMIT='--slots 3 --nodes 3' " ROLLCTL,
                                    "submit --dry-run a.toml --nodes 4");
    ASSERT_EQ(ended.status, 0) << ended.output;
    const Json job = Json::parse(ended.output)["jobs"][0];
    EXPECT_EQ(job["name"], "a");
    EXPECT_EQ(job["resources"]["slots_per_node"], 3);
    EXPECT_EQ(job["resources"]["nodes"], 4);
    EXPECT_EQ(run_program("env ROLL_SUBMIT=--slot " ROLLCTL, "submit --dry-run a.toml").status, 2);
}

TEST_F(Rollctl, TheEnvironmentSaysHowToPrintUnlessAFlagDoes) {
    const std::string json = "env ROLL_OUTPUT_MODE=json " ROLLCTL;
    EXPECT_EQ(Json::parse(run_program(json, "jobs").output)["error"]["code"], "unavailable");
    EXPECT_NE(run_program(json, "--parsable jobs").output.find("next: rollctl up"),
              std::string::npos);
    const Ended odd = run_program("env ROLL_OUTPUT_MODE=xml " ROLLCTL, "jobs");
    EXPECT_EQ(odd.status, 2);
    EXPECT_EQ(odd.output, "rollctl: ROLL_OUTPUT_MODE is xml; allowed: text, json or parsable\n");
    for (const char* list : {"jobs", "nodes", "alloc list"}) {
        EXPECT_EQ(run(std::string(list) + " -o colour").status, 2) << list;
        EXPECT_EQ(run(std::string(list) + " -o help").status, 0) << list;
    }
}

TEST_F(Rollctl, TheExampleIsAValidJobFile) {
    std::filesystem::create_directories(base + "/data");
    std::filesystem::copy(std::string(ROLL_EXAMPLES) + "/kjv.yaml", base);
    std::ofstream(base + "/data/kjv.txt") << "In the beginning";
    const Ended ended = run("submit --dry-run kjv.yaml --set train.steps=70");
    ASSERT_EQ(ended.status, 0) << ended.output;
    EXPECT_EQ(Json::parse(ended.output)["jobs"][0]["document"]["train"]["steps"], 70);
}

// Puts scripts next to rollctl in place of roll-convert and roll-rank. They print their arguments.
TEST_F(Rollctl, HandsItsWordsToTheProgramsBesideIt) {
    std::filesystem::copy(ROLLCTL, base + "/rollctl");
    for (const char* name : {"roll-rank", "roll-convert"}) {
        std::ofstream(base + "/" + name) << "#!/bin/sh\nprintf '%s|' $0 \"$@\"; exit 7\n";
        std::filesystem::permissions(base + "/" + name, std::filesystem::perms::owner_all);
    }
    const Ended converted = run_program("./rollctl", "convert a 'b c' --to hf --json --help");
    EXPECT_EQ(converted.status, 7);
    EXPECT_NE(converted.output.find("roll-convert|convert|a|b c|--to|hf|--json|--help|"),
              std::string::npos)
        << converted.output;
    EXPECT_NE(run_program("./rollctl", "--json inspect d").output.find("|inspect|d|--json|"),
              std::string::npos);
    EXPECT_NE(run_program("./rollctl", "generate d 'In the' --seed 1")
                  .output.find("roll-rank|generate|d|In the|--seed|1|"),
              std::string::npos);
}

TEST_F(Rollctl, PlanGivesTheTrainerTheWholeDocument) {
    std::filesystem::copy(ROLLCTL, base + "/rollctl");
    std::ofstream(base + "/roll-rank")
        << "#!/bin/sh\n[ \"$1 $2\" = 'plan --spec' ] && cat \"$3\"\n";
    std::filesystem::permissions(base + "/roll-rank", std::filesystem::perms::owner_all);
    std::filesystem::create_directories(base + "/data");
    std::filesystem::copy(std::string(ROLL_EXAMPLES) + "/kjv.yaml", base);
    std::ofstream(base + "/data/kjv.txt") << "In the beginning";
    const Ended planned = run_program("./rollctl", "plan kjv.yaml --set train.steps=90");
    ASSERT_EQ(planned.status, 0) << planned.output;
    EXPECT_EQ(Json::parse(planned.output)["train"]["steps"], 90);
}

TEST_F(Rollctl, CompletionIsAScriptThatShellsAccept) {
    std::ofstream(base + "/c.sh") << run("completion bash").output;
    EXPECT_EQ(std::system(("bash -n " + base + "/c.sh").c_str()), 0);
    EXPECT_EQ(run("completion tcsh").status, 2);
}

// The completion script calls a fake rollctl, which prints its arguments.
TEST_F(Rollctl, CompletionKnowsCommandsVerbsJobsQueuesAndAllocations) {
    std::ofstream(base + "/c.sh") << run("completion bash").output;
    std::ofstream(base + "/rollctl") << "#!/bin/sh\necho $* | tr ' ' '_'\n";
    std::filesystem::permissions(base + "/rollctl", std::filesystem::perms::owner_all);
    const auto completed = [&](const std::string& words, int at) {
        std::ofstream(base + "/ask.sh")
            << "PATH=" << base << ":$PATH; . " << base << "/c.sh; COMP_WORDS=(" << words
            << "); COMP_CWORD=" << at << "; _rollctl; echo ${COMPREPLY[*]}\n";
        return run_program("bash ask.sh", "").output;
    };
    EXPECT_EQ(completed("rollctl expl", 1), "explain\n");
    EXPECT_EQ(completed("rollctl alloc ''", 2),
              "list add pause resume remove dry-run close cancel\n");
    EXPECT_EQ(completed("rollctl alloc pause ''", 3), "alloc_list_--parsable\n");
    for (const char* verb : {"close", "cancel"})
        EXPECT_EQ(completed(std::string("rollctl alloc ") + verb + " ''", 3),
                  "alloc_list_-o_{id}\n");
    for (const char* command : {"checkpoint", "resubmit", "jobs", "wait"})
        EXPECT_EQ(completed(std::string("rollctl ") + command + " ''", 2),
                  "last all jobs_-a_--parsable\n");
}

TEST_F(Rollctl, AnAllocationIsNamedByItsNumber) {
    for (const char* bad : {"''", "x", "0", "-1", "1.5", "18446744073709551616"}) {
        const Ended ended = run(std::string("alloc close ") + bad);
        EXPECT_EQ(ended.status, 2) << bad;
        EXPECT_NE(ended.output.find("allowed: a number of at least 1"), std::string::npos) << bad;
    }
}

// Takes the commands from the first list in the completion script.
TEST_F(Rollctl, EveryCommandIsInTheManualPage) {
    std::ifstream file(ROLL_MANUAL);
    const std::string page((std::istreambuf_iterator<char>(file)), {});
    const std::string commands = page.substr(page.find(".SH COMMANDS"));
    const std::string script = run("completion bash").output;
    const std::size_t begin = script.find("compgen -W \"") + 12;
    std::istringstream words(script.substr(begin, script.find('"', begin) - begin));
    int count = 0;
    for (std::string word; words >> word; ++count)
        EXPECT_TRUE(std::regex_search(commands, std::regex("\\b" + word + "\\b"))) << word;
    EXPECT_GT(count, 30);
}

TEST_F(Rollctl, DoctorNamesARemedyForEachThingThatIsMissing) {
    const Ended ended = run("doctor --json");
    EXPECT_EQ(ended.status, 1);
    const Json report = Json::parse(ended.output);
    EXPECT_EQ(report["good"], false);
    for (const Json& check : report["checks"]) {
        EXPECT_EQ(check["good"] == false, check["remedy"] != "") << check;
    }
}

TEST_F(Rollctl, DoctorNamesTheProcessorsPath) {
    const auto processor = [&](const std::string& value) {
        ::setenv("ROLL_PROCESSOR", value.c_str(), 1);
        const Json report = Json::parse(run("doctor --json").output);
        ::unsetenv("ROLL_PROCESSOR");
        for (const Json& check : report["checks"])
            if (check["check"] == "processor") return check;
        return Json{};
    };
    const Json forced = processor("default-other");
    EXPECT_EQ(forced["good"], true);
    EXPECT_EQ(
        forced["detail"],
        "default; float32 matrix products: by MKL, bfloat16 matrix products: in float32 by MKL; "
        "forced by ROLL_PROCESSOR=default-other");
    for (const std::string wrong : {"sse", "default-", "default-amd", "-intel"}) {
        const Json refused = processor(wrong);
        EXPECT_EQ(refused["good"], false) << refused;
        EXPECT_NE(refused["detail"].get<std::string>().find("allowed are default, avx2"),
                  std::string::npos)
            << refused;
    }
}

}  // namespace
}  // namespace roll::cli
