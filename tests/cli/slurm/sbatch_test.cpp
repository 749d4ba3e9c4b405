#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "cli/foreign/table.hpp"
#include "cli/slurm/directives.hpp"
#include "cli/slurm/jobs.hpp"
#include "cli/slurm/options.hpp"
#include "cli/slurm/rules.hpp"
#include "cli/slurm/values.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::cli {
namespace {

using Texts = std::vector<std::string>;

// Returns the words of a script's #SBATCH lines, or the error.
Texts words_of(const std::string& script) {
    const auto words = directive_words(script, "a.sh");
    if (!words) return {words.error().message};
    Texts texts;
    for (const DirectiveWord& word : *words) texts.push_back(word.text);
    return texts;
}

Texts words_of_line(const std::string& line) {
    return words_of("#!/bin/sh\n#SBATCH " + line + "\ntrue\n");
}

// The expected words are those of sbatch 22.05.
TEST(Directives, AreSplitAsSbatchDoes) {
    EXPECT_EQ(words_of_line("-N2 --job-name=\"a b\" # c"), (Texts{"-N2", "--job-name=a b"}));
    EXPECT_EQ(words_of_line("--comment=a#b -N2"), (Texts{"--comment=a"}));
    EXPECT_EQ(words_of_line("--comment='it\\'s' -N2"), (Texts{"--comment=it's", "-N2"}));
    EXPECT_EQ(words_of_line("--comment='say \"x\"'"), (Texts{"--comment=say \"x\""}));
    EXPECT_EQ(words_of_line("--comment=a\\ b"), (Texts{"--comment=a b"}));
    EXPECT_EQ(words_of_line("--comment=a\"b c\"d"), (Texts{"--comment=ab cd"}));
    EXPECT_EQ(words_of_line("--comment \"a\\nb\""), (Texts{"--comment", "anb"}));
    EXPECT_EQ(words_of_line("--comment=a\\#b"), (Texts{"--comment=a#b"}));
    EXPECT_EQ(words_of_line("--comment=\"\" -N2"), (Texts{"--comment=", "-N2"}));
    EXPECT_EQ(words_of_line("-N2\\"), (Texts{"-N2"}));
    EXPECT_EQ(words_of("#!/bin/sh\n#SBATCH--nodes=2\n#SBATCH\t-n4\n"), (Texts{"--nodes=2", "-n4"}));
}

TEST(Directives, EndAtTheFirstCommand) {
    EXPECT_EQ(words_of("#!/bin/sh\n\n  # text\n##SBATCH --no\n#sbatch -n1\n  #SBATCH -n2\n"
                       "#SBATCH -N2\n:\n#SBATCH -n3\n"),
              (Texts{"-N2"}));
    EXPECT_EQ(words_of("#!/bin/sh\ncat <<E\n#SBATCH -n3\nE\n"), (Texts{}));
    EXPECT_FALSE(has_directives("#!/bin/sh\ncat <<E\n#SBATCH -n3\nE\n"));
    EXPECT_TRUE(has_directives("#!/bin/sh\n#SBATCH"));
    EXPECT_FALSE(has_directives(""));
}

TEST(Directives, ThatSbatchRefusesAreRefused) {
    EXPECT_EQ(words_of_line("--job-name=\"a b"),
              (Texts{"a.sh:2: the quote \" is not closed in [ --job-name=\"a b]"}));
    EXPECT_EQ(words_of("#!/bin/sh\r\n#SBATCH -N2\r\n"),
              (Texts{"a.sh has DOS line breaks (\\r\\n), which shells do not accept"}));
    const Texts parts = {"a.sh:2: Roll has no heterogeneous jobs (`:` or hetjob)"};
    EXPECT_EQ(words_of_line("hetjob"), parts);
    EXPECT_EQ(words_of_line("-N2 : -N1"), parts);
    EXPECT_EQ(words_of_line("--comment hetjob"), (Texts{"--comment", "hetjob"}));
}

// Returns "name=value ..." for a list of words, or the error.
std::string read(const Texts& words) {
    std::vector<SourceWord> all;
    for (const std::string& word : words) all.push_back({word, "a.sh:2: "});
    const auto read = read_sbatch_words(all);
    if (!read) return read.error().message;
    std::string text;
    for (const SbatchOption& one : read->options) text += one.name + "=" + one.value + " ";
    for (const SourceWord& word : read->rest) text += word.text + " ";
    return text;
}

TEST(SbatchOptions, AreReadAsGetoptDoes) {
    EXPECT_EQ(read({"-HN2", "-n", "3", "--time=5", "--time", "6", "job.sh", "-N9"}),
              "hold= nodes=2 ntasks=3 time=5 time=6 job.sh -N9 ");
    EXPECT_EQ(read({"--nice", "-N2", "--nice=5", "--part", "x"}),
              "nice= nodes=2 nice=5 partition=x ");
    EXPECT_EQ(read({"--", "-N2"}), "-N2 ");
    EXPECT_EQ(read({"--nod=2"}),
              "a.sh:2: --nod is ambiguous; it may mean --nodefile, --nodelist, --nodes");
    EXPECT_EQ(read({"--ndoes=2"}),
              "a.sh:2: --ndoes is not an option of sbatch; did you mean `nodes`?");
    EXPECT_EQ(read({"-y"}), "a.sh:2: -y is not an option of sbatch");
    EXPECT_EQ(read({"--export"}), "a.sh:2: --export needs a value: --export=NAMES");
    EXPECT_EQ(read({"--hold=3"}), "a.sh:2: --hold=3: --hold takes no value");
}

TEST(SbatchOptions, OfVariables) {
    const auto options = sbatch_variables({"SBATCH_TIMELIMIT=5", "SBATCH_REQUEUE=", "SLURM_HINT=x",
                                           "SBATCH_NO_REQUEUE=0", "SBATCH_OUTPUT="});
    std::string text;
    for (const SbatchOption& one : options) text += one.place + option_text(one) + "\n";
    EXPECT_EQ(text,
              "SLURM_HINT: --hint=x\nSBATCH_REQUEUE: --requeue\nSBATCH_TIMELIMIT: --time=5\n");
}

TEST(SbatchTable, HasOneReadingForEachOption) {
    int honoured = 0;
    for (const auto& [name, entry] : sbatch_table()["options"].items()) {
        const int readings = static_cast<int>(entry.contains("sets")) +
                             static_cast<int>(entry.contains("no_effect")) +
                             static_cast<int>(entry.contains("refused"));
        EXPECT_EQ(readings, 1) << name;
        honoured += entry.contains("sets") ? 1 : 0;
    }
    EXPECT_GE(honoured, 40);
}

TEST(SlurmValues, TimeLimits) {
    const auto seconds = [](const std::string& text) {
        const auto read = slurm_duration(text);
        return read ? read->count() : -1;
    };
    EXPECT_EQ(seconds("90"), 5400);
    EXPECT_EQ(seconds("1:30"), 120);  // rounded up to minutes
    EXPECT_EQ(seconds("1:02:03"), 3780);
    EXPECT_EQ(seconds("2-1"), 2 * 86400 + 3600);
    EXPECT_EQ(seconds("2-1:30"), 2 * 86400 + 5400);
    EXPECT_EQ(seconds("2-0:0:1"), 2 * 86400 + 60);
    for (const char* none : {"0", "UNLIMITED", "infinite", "-1"}) EXPECT_EQ(seconds(none), 0);
    for (const char* bad : {"", "5x", "1:2:3:4", "1-0:0:0:0", "-5", "1-", "99999999999"})
        EXPECT_EQ(seconds(bad), -1) << bad;
    EXPECT_EQ(slurm_duration_text(std::chrono::seconds(2 * 86400 + 3661)), "2-01:01:01");
    EXPECT_EQ(slurm_duration_text(std::chrono::seconds(65)), "1:05");
}

TEST(SlurmValues, Instants) {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
    const Time now{std::chrono::seconds(1'795'694'400)};  // 2026-11-26T12:00:00Z
    const auto at = [&](const std::string& text) {
        const auto read = slurm_instant(text, now);
        return read ? to_iso8601(*read).substr(0, 19) : "bad";
    };
    EXPECT_EQ(at("now+90"), "2026-11-26T12:01:30");
    EXPECT_EQ(at("now+1hour"), "2026-11-26T13:00:00");
    EXPECT_EQ(at("now+2weeks"), "2026-12-10T12:00:00");
    EXPECT_EQ(at("16:00"), "2026-11-26T16:00:00");
    EXPECT_EQ(at("8:30:15"), "2026-11-27T08:30:15");
    EXPECT_EQ(at("4:00PM"), "2026-11-26T16:00:00");
    EXPECT_EQ(at("midnight"), "2026-11-27T00:00:00");
    EXPECT_EQ(at("teatime"), "2026-11-26T16:00:00");
    EXPECT_EQ(at("tomorrow"), "2026-11-27T00:00:00");
    EXPECT_EQ(at("2027-01-02"), "2027-01-02T00:00:00");
    EXPECT_EQ(at("2027-01-02T03:04:05"), "2027-01-02T03:04:05");
    EXPECT_EQ(at("12/24"), "2026-12-24T00:00:00");
    EXPECT_EQ(at("01/02"), "2027-01-02T00:00:00");
    EXPECT_EQ(at("01/02/28-10:00"), "2028-01-02T10:00:00");
    EXPECT_EQ(at("122426"), "2026-12-24T00:00:00");
    for (const char* bad :
         {"", "yesterday", "25:00", "13/01", "now+1fortnight", "2027-01-02T", "5"})
        EXPECT_EQ(at(bad), "bad") << bad;
}

TEST(SlurmValues, Signals) {
    const auto signal = slurm_signal("B:USR1@90");
    ASSERT_TRUE(signal);
    EXPECT_EQ(std::tuple(signal->batch, signal->number, signal->seconds),
              std::tuple(true, SIGUSR1, 90));
    EXPECT_EQ(slurm_signal("SIGTERM")->seconds, 60);
    EXPECT_EQ(slurm_signal("10@5")->number, 10);
    for (const char* bad : {"FOO@3", "X:USR1", "USR1@x", "", "99"}) EXPECT_FALSE(slurm_signal(bad));
}

// Returns the job file that a command line of sbatch becomes.
SbatchReading translated(const Texts& words) {
    std::vector<SourceWord> all;
    for (const std::string& word : words) all.push_back({word, ""});
    const auto read = read_sbatch_words(all);
    EXPECT_TRUE(read) << read.error().message;
    return translate_sbatch(read->options, {{"kind", "command"}, {"name", "job.sh"}},
                            Time{std::chrono::seconds(1'795'694'400)});
}

TEST(SbatchRules, DecideNodesSlotsAndGpus) {
    const auto sizes = [](const Texts& words) {
        Json resources = translated(words).document["resources"];
        return std::tuple(resources.value("nodes", 0), resources.value("slots_per_node", 0),
                          resources.value("gpus_per_node", 0));
    };
    EXPECT_EQ(sizes({}), std::tuple(1, 1, 0));
    EXPECT_EQ(sizes({"-N2", "-n8", "-c2"}), std::tuple(2, 8, 0));
    EXPECT_EQ(sizes({"-N2-4", "--ntasks-per-node=3"}), std::tuple(2, 3, 0));
    EXPECT_EQ(sizes({"-n8", "--ntasks-per-node=4"}), std::tuple(2, 4, 0));
    EXPECT_EQ(sizes({"-n4", "-N8"}), std::tuple(4, 1, 0));
    EXPECT_EQ(sizes({"-N2", "--gpus=8", "--cpus-per-gpu=3"}), std::tuple(2, 12, 4));
    EXPECT_EQ(sizes({"--gres=gpu:h100:4"}), std::tuple(1, 1, 4));
    EXPECT_EQ(sizes({"--gres=gpu", "-n2", "-O"}), std::tuple(1, 1, 1));
    EXPECT_EQ(sizes({"--gres=gpu:a100"}), std::tuple(1, 1, 1));
    for (const char* two : {"gpu:2(S:0)", "gpu:a100:2(S:0-1)", "gpu:1g.5gb:2", "gpu:a100,gpu:1"})
        EXPECT_EQ(sizes({"--gres=" + std::string(two)}), std::tuple(1, 1, 2)) << two;
    EXPECT_EQ(sizes({"--gres=gpu:1K"}), sizes({"--gres=gpu:a100:1024"}));
    EXPECT_EQ(sizes({"--gpus-per-node=h100:2", "-n3", "--mincpus=7"}), std::tuple(1, 7, 2));
    EXPECT_EQ(sizes({"-n4", "-N2", "--gpus-per-task=2"}), std::tuple(2, 2, 4));
    EXPECT_EQ(sizes({"--gpus=4", "--ntasks-per-gpu=2"}), std::tuple(1, 8, 4));
    EXPECT_EQ(translated({"-N4", "--switches=1@10"}).document["resources"]["segment"], 4);
}

TEST(SbatchRules, SetTheOtherKeys) {
    const Json job = translated({"-J", "a b/c", "-t", "2-1", "-d", "afterok:1:2,afterany:3,4",
                                 "--no-requeue", "-o", "x", "--export=ALL,A=b=c,NOT_SET_HERE",
                                 "--signal=B:USR1@60", "-H", "--nice=7", "--comment=hi"})
                         .document;
    EXPECT_EQ(job["name"], "a-b-c");
    EXPECT_EQ(job["sbatch"]["name"], "a b/c");
    EXPECT_EQ(job["resources"]["time"], "176400s");
    EXPECT_EQ(job["after"], Json::parse(R"(["ok:1", "ok:2", "any:3", "any:4"])"));
    EXPECT_EQ(job["retry"], Json::parse(R"({"infra": 0, "preempted": 0})"));
    EXPECT_EQ(job["stdout"], "x");
    EXPECT_EQ(job["env"], Json::parse(R"({"A": "b=c"})"));
    EXPECT_EQ(job["export_env"], "all");
    EXPECT_EQ(job["sbatch"]["signal"],
              Json::parse(R"({"number": 10, "before": 60, "script": true})"));
    EXPECT_EQ(job["priority"], -7);
    EXPECT_EQ(job["hold"], true);
    EXPECT_EQ(job["sbatch"]["comment"], "hi");
    EXPECT_EQ(translated({"-a", "1-3%2"}).document["stdout"], "slurm-%A_%a.out");
    EXPECT_EQ(translated({"--export=NONE"}).document["export_env"], "none");
    EXPECT_EQ(translated({"--no-requeue", "--requeue"}).document.contains("retry"), false);
    EXPECT_EQ(translated({"--priority=0"}).document["priority"], 0);
}

TEST(SbatchRules, VariablesThatRollSetsAreSkippedAndTold) {
    const TemporaryFolder folder;
    const std::string file = folder / "env";
    std::ofstream(file) << "ROLL_TOKEN=1-1" << '\0' << "ROLL_MINE=2" << '\0';
    ::setenv("ROLL_JOB", "7", 1);
    const SbatchReading read =
        translated({"--export=ROLL_JOB,ROLL_WORKER=7", "--export-file=" + file,
                    "--container-image=/a.sqsh", "--container-env=ROLL_JOB,ROLL_WORKER"});
    ::unsetenv("ROLL_JOB");
    EXPECT_EQ(read.document["env"], Json::parse(R"({"ROLL_MINE": "2"})"));
    for (const char* line : {"  no effect: ROLL_JOB of --export: Roll sets this variable",
                             "  no effect: ROLL_WORKER of --export: Roll sets this variable",
                             "  no effect: ROLL_TOKEN of --export-file: Roll sets this variable",
                             "  no effect: ROLL_JOB of --container-env: Roll sets this variable"})
        EXPECT_EQ(std::ranges::count(read.read, line), 1) << line;
}

TEST(SbatchRules, OptionsOfPyxisSetTheContainer) {
    const auto image = [](const std::string& value) {
        const SbatchReading read = translated({"--container-image=" + value});
        return read.problems.empty() ? read.document["container"].dump() : read.problems[0];
    };
    EXPECT_EQ(image("nvcr.io#nvidia/pytorch:24.01-py3"),
              R"({"image":"nvcr.io/nvidia/pytorch:24.01-py3"})");
    EXPECT_EQ(image("docker://ubuntu:22.04"), R"({"image":"docker.io/library/ubuntu:22.04"})");
    EXPECT_EQ(image("ann/tool@sha256:ab"), R"({"image":"docker.io/ann/tool@sha256:ab"})");
    EXPECT_EQ(image("/images/a"), R"({"image":"/images/a","runtime":"enroot"})");
    for (const char* wrong : {"dockerd://ubuntu", "#ubuntu", "nvcr.io#", ""})
        EXPECT_EQ(image(wrong), "--container-image is \"" + std::string(wrong) +
                                    "\"; allowed: [REGISTRY#]IMAGE[:TAG], or the path of a "
                                    "squashfs file");
    EXPECT_NE(image("ann@nvcr.io#a/b").find("instead of USER@, log in"), std::string::npos);

    const Texts more = {"--container-image=/a.sqsh", "--container-mounts=/d,/d:/e:rw,/d:/f:ro",
                        "--container-workdir=/w"};
    const Json job = translated(more).document;
    EXPECT_EQ(job["container"]["binds"], Json::parse(R"(["/d:/d", "/d:/e", "/d:/f:ro"])"));
    EXPECT_EQ(job["container"]["workdir"], "/w");
    EXPECT_EQ(job["export_env"], "none");
    const auto problem = [&](const std::string& word) {
        const auto problems = translated({"--container-image=/a.sqsh", word}).problems;
        return problems.empty() ? "" : problems[0];
    };
    for (const char* mounts : {"tmpfs:/t", "/d:/e:ro+rprivate", "/d:e", "/a:/b:ro:x", ""})
        EXPECT_NE(problem("--container-mounts=" + std::string(mounts)).find("allowed: SRC:DST,"),
                  std::string::npos)
            << mounts;
    EXPECT_EQ(problem("--container-workdir=w"),
              "--container-workdir is \"w\"; allowed: an absolute path");
    EXPECT_EQ(problem("-N2"),
              "--nodes=2: cannot be used with --container-image, because the script runs in the "
              "container, where srun cannot start tasks on other nodes");
    EXPECT_NE(problem("--signal=USR1").find("does not reach a script in a container"),
              std::string::npos);
    const Texts spread = {"--container-image=/a.sqsh", "--gpus=8", "--ntasks-per-gpu=1",
                          "--ntasks-per-node=4"};
    const auto problems = translated(spread).problems;
    ASSERT_FALSE(problems.empty());
    EXPECT_NE(problems.back().find("--gpus=8: cannot be used with"), std::string::npos);
    EXPECT_EQ(translated({"--container-mounts=/d"}).read,
              Texts{"  no effect: --container-mounts=/d: --container-image is missing"});
}

TEST(SbatchRules, NameWhatIsWrongAndWhatIsAllowed) {
    const auto problem = [](const Texts& words) {
        const auto problems = translated(words).problems;
        return problems.empty() ? "" : problems[0];
    };
    EXPECT_EQ(problem({"-n0"}), "--ntasks is \"0\"; allowed: a whole number from 1 to 1000000");
    EXPECT_EQ(problem({"-N3-2"}),
              "--nodes is \"3-2\"; allowed: N or N-M with whole numbers from 1 to 1000000");
    EXPECT_EQ(problem({"-N3", "--gpus=4"}),
              "--gpus is \"4\"; allowed: a multiple of the number of nodes, 3, because all nodes "
              "of a job have equally many GPUs");
    EXPECT_EQ(translated({"--gpus=x"}).problems,
              Texts{"--gpus is \"x\"; allowed: N or TYPE:N with N from 0 to 1000000"});
    for (const std::string wrong : {"gpu:-1", "gpu:a100:-1", "gpu:a100:two", "gpu:1.5",
                                    "gpu:", "gpu:9999999999", "gpu:a:1:1", "gpus:1"})
        EXPECT_EQ(problem({"--gres=" + wrong}).find("--gres is \"" + wrong + "\"; allowed: "), 0U);
    EXPECT_EQ(problem({"--gres=license:1"}),
              "--gres is \"license:1\"; allowed: gpu, gpu:N or gpu:TYPE:N, because GPUs are Roll's "
              "only generic resource");
    for (const char* list : {"singleton", "after:3", "afterok:1?afterok:2", "afterok:x", "afterok"})
        EXPECT_EQ(problem({"-d", list}),
                  "--dependency is \"" + std::string(list) +
                      "\"; allowed: afterok, afterany and afternotok with ids of jobs, such as "
                      "afterok:12:13,afterany:14");
    EXPECT_EQ(problem({"--begin=yesterday"}).substr(0, 41),
              "--begin is \"yesterday\"; allowed: now+1hou");
    EXPECT_EQ(problem({"--open-mode=x"}), "--open-mode is \"x\"; allowed: append or truncate");
    EXPECT_EQ(problem({"--uid=0"}), "--uid=0: jobs run as the user of rolld");
    EXPECT_EQ(problem({"--export-file=/nowhere"}).substr(0, 34),
              "--export-file is \"/nowhere\"; allow");
}

// Products of such options once wrapped around to numbers that a job may have.
TEST(SbatchRules, SizesThatAreTooLargeStayTooLarge) {
    const auto resources = [](const Texts& words) {
        return translated(words).document["resources"];
    };
    EXPECT_GT(resources({"-n65536", "-c65536"})["slots_per_node"], 4096);
    EXPECT_GT(resources({"-n65536", "--gpus-per-task=65536"})["gpus_per_node"], 64);
    EXPECT_GT(resources({"--gres=gpu:1000000,gpu:1000000"})["gpus_per_node"], 64);
    EXPECT_EQ(translated({"--mem=2147483647T"}).problems.size(), 1u);
    EXPECT_EQ(translated({"-N2147483647"}).problems.size(), 1u);
    EXPECT_FALSE(translated({"--gpus=2147483647"}).problems.empty());
}

TEST(SlurmValues, MemoryIsInMebibytes) {
    EXPECT_EQ(slurm_mebibytes("16G"), 16384);
    EXPECT_EQ(slurm_mebibytes("16gb"), 16384);
    EXPECT_EQ(slurm_mebibytes("500"), 500);
    EXPECT_EQ(slurm_mebibytes("1025K"), 2);
    EXPECT_EQ(slurm_mebibytes("2T"), 2 * 1024 * 1024);
    for (const char* wrong : {"", "G", "1.5G", "16X", "16GBB", "-1"})
        EXPECT_FALSE(slurm_mebibytes(wrong)) << wrong;
}

TEST(SbatchRules, MemoryIsThatOfANode) {
    const auto memory = [](const Texts& words) {
        return translated(words).document["resources"].value("memory", "");
    };
    EXPECT_EQ(memory({}), "");
    EXPECT_EQ(memory({"--mem=2G"}), "2048MiB");
    EXPECT_EQ(memory({"--mem=0"}), "");
    EXPECT_EQ(memory({"--mem-per-cpu=4G", "--mem=0"}), "") << "--mem comes first";
    EXPECT_EQ(memory({"-n4", "-c2", "--mem-per-cpu=100"}), "800MiB");
    EXPECT_EQ(memory({"--gres=gpu:2", "--mem-per-gpu=10G"}), "20480MiB");
    const auto given = [](const Texts& words) {
        return translated(words).document.value("sbatch", Json::object());
    };
    EXPECT_EQ(given({"--mem=2G"})["mem_per_node"], 2048);
    EXPECT_EQ(given({"-n4", "--mem-per-cpu=100"})["mem_per_cpu"], 100);
    EXPECT_EQ(given({"--gres=gpu:2", "--mem-per-gpu=1G"})["mem_per_gpu"], 1024);
    EXPECT_FALSE(given({"--mem=0"}).contains("mem_per_node"));
    EXPECT_EQ(
        translated({"--mem=much"}).problems,
        (Texts{"--mem is \"much\"; allowed: a whole number with a suffix K, M, G or T, such as "
               "16G"}));
}

TEST(SbatchOptions, OnAnotherCommandAreExplained) {
    EXPECT_EQ(sbatch_advice("--wrap=true"),
              "--wrap is an option of sbatch; use it with `rollctl slurm sbatch`: a script of "
              "/bin/sh with this command");
    EXPECT_TRUE(sbatch_advice("-pgpu").starts_with(
        "--partition is an option of sbatch: Roll chooses the allocation queue"));
    EXPECT_TRUE(sbatch_advice("--uid").starts_with("--uid is an option of sbatch: jobs run as"));
    for (const char* word : {"--memo", "-", "", "mem", "-Z", "--"})
        EXPECT_EQ(sbatch_advice(word), "") << word;
}

TEST(SlurmIds, NameTasksOfAnArray) {
    EXPECT_EQ(split_ids("12,14_[0,2-3],,15_1"), (Texts{"12", "14_[0,2-3]", "15_1"}));
    const Json task = {{"id", 15}, {"array", {{"job", 12}, {"index", 7}}}};
    for (const char* id : {"15", "12", "12_7", "12_[0-3,7]", "12_[7]", "12_[1-9:3]"})
        EXPECT_TRUE(is_meant(task, id)) << id;
    for (const char* id : {"7", "12_", "12_[0-3]", "12_[", "12_[]", "12_[x]", "1_[7]", "2_[7]", ""})
        EXPECT_FALSE(is_meant(task, id)) << id;
    EXPECT_FALSE(is_meant({{"id", 12}, {"array", nullptr}}, "12_[0]"));
}

TEST(SlurmStates, ThatSlurmDoesNotHaveAreRefused) {
    EXPECT_TRUE(check_states("squeue", {"pending", "R", "all", "NODE_FAIL"}));
    const auto refused = check_states("squeue", {"PD", "PENDNG"});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message.substr(0, 50),
              "squeue: PENDNG is not a state; allowed: all, PENDI");
}

TEST(SlurmReason, IsADependencyOnlyIfTheJobWaitsForAnotherJob) {
    const auto reason = [](const char* waiting) {
        return slurm_reason({{"state", "queued"}, {"waiting", waiting}}, Time{});
    };
    EXPECT_EQ(reason("waits for ok:5"), "Dependency");
    EXPECT_EQ(reason("waits for any:5; jobs of that array that have not ended: 2 of 3"),
              "Dependency");
    EXPECT_EQ(reason("waits for free resources: needs 2 nodes with 2 slots each"), "Resources");
    EXPECT_EQ(reason("waits for allocation 3 of queue gpu"), "Resources");
    EXPECT_EQ(reason("waits for the workers of allocation 3 of queue gpu, which Slurm has granted"),
              "Resources");
}

}  // namespace
}  // namespace roll::cli
