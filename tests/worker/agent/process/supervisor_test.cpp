#include <csignal>
#include <fstream>
#include <map>
#include <set>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "common/protocol/rank.hpp"
#include "tests/worker/agent/dummy_trainer.hpp"
#include "tests/worker/agent/process/supervisor_fixture.hpp"
#include "worker/agent/process/clock.hpp"

namespace roll::agent {
namespace {

TEST_F(SupervisorTest, RanksTalkAndTheirEndsAreSeen) {
    start(R"({"rank": ["ready", "stage 10", "recorded 10", "exit 0"]})", 2);
    EXPECT_TRUE(std::holds_alternative<protocol::Ready>(wait<Reported>().report));
    wait<Reported>(4);
    EXPECT_TRUE(std::filesystem::exists(folder_ / "out/checkpoints/.step-10.1-1"));
    supervisor_->tell(key_, protocol::RecordedStep{10});
    wait<Gone>();
    EXPECT_EQ(wait<Exited>(1).exit, (ExitStatus{false, 0}));
    EXPECT_EQ(wait<Exited>(2).exit, (ExitStatus{false, 0}));
    EXPECT_EQ(log(0), "rank 0 of 2\n");
    EXPECT_EQ(log(1), "rank 1 of 2\n");
    EXPECT_TRUE(nothing_left());
}

TEST_F(SupervisorTest, ACommandHasTheWorkersEnvironmentUnderTheJobsOwn) {
    ::setenv("ROLL_TEST_SITE", "site", 1);
    ::setenv("ROLL_TEST_JOB", "site", 1);
    restart();
    start(
        R"({"command": ["sh", "-c", "echo $ROLL_TEST_SITE $ROLL_TEST_JOB; env | grep -c ^ROLL_TEST_JOB="],
              "env": {"ROLL_TEST_JOB": "job"}})",
        1, "command");
    wait<Gone>();
    EXPECT_EQ(log(0), "site job\n1\n");
}

TEST_F(SupervisorTest, ACommandThatSaysNothingLeavesItsOutputsFolderAlone) {
    start(R"({"command": ["true"]})", 1, "command");
    wait<Gone>();
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
}

TEST_F(SupervisorTest, WhatACommandSaysIsInItsLogWhileItRuns) {
    start(
        R"({"command": ["sh", "-c", "echo one; echo two >&2; read line; yes | head -c 3000000"]})",
        1, "command");
    while (logged(0).size() < 8) ::usleep(1000);
    EXPECT_EQ(log(0), "one\ntwo\n");
    supervisor_->tell(key_, protocol::RecordedStep{1});
    wait<Gone>();
    EXPECT_EQ(log(0).size(), 8u + 3'000'000);
}

TEST_F(SupervisorTest, ACommandWhoseLogCannotBeMadeFailsWhenItWrites) {
    std::filesystem::create_directories(folder_ / "out");
    std::ofstream(folder_ / "out/logs") << "a file\n";
    start(R"({"command": ["sh", "-c", "while sleep 0.01; do echo x; done"]})", 1, "command");
    wait<Gone>();
    const Verdict verdict = wait<StartFailed>().verdict;
    EXPECT_EQ(verdict.outcome, Outcome::Invalid);
    EXPECT_NE(verdict.reason.find((folder_ / "out/logs").string()), std::string::npos);
}

// Returns the job of a command that prints nothing and makes the file `ran` in `folder`. `key`
// names its log.
std::string silent_command(const std::string& folder, const char* key, const std::string& log) {
    return Json{{"command", {"sh", "-c", "echo y > ran"}}, {"workdir", folder}, {key, log}}.dump();
}

TEST_F(SupervisorTest, ACommandWhoseNamedLogCannotBeOpenedDoesNotStart) {
    std::ofstream(folder_ / "file") << "a file\n";
    const std::map<std::string, std::string> logs{{folder_.string(), "Is a directory"},
                                                  {folder_ / "file/log", "Not a directory"}};
    for (const char* key : {"stdout", "stderr"})
        for (const auto& [log, reason] : logs) {
            start(silent_command(folder_.string(), key, log), 1, "command");
            const Verdict verdict = wait<StartFailed>().verdict;
            EXPECT_EQ(verdict, (Verdict{Outcome::Invalid, protocol::kExitInvalid,
                                        "cannot open log " + log + ": " + reason}));
            wait<Gone>();
            next_attempt();
        }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "ran"));
}

TEST_F(SupervisorTest, ANamedLogThatIsAFifoWithoutAReaderDoesNotHoldUpTheGuard) {
    const std::string fifo = folder_ / "fifo";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    for (const char* key : {"stdout", "stderr"}) {
        start(silent_command(folder_.string(), key, fifo), 1, "command");
        EXPECT_EQ(wait<Exited>().exit, (ExitStatus{false, 0}));
        wait<Gone>();
        EXPECT_TRUE(std::filesystem::remove(folder_ / "ran"));
        next_attempt();
    }
}

TEST_F(SupervisorTest, AStrangerWhoHoldsACommandsOutputIsNotWaitedFor) {
    start(R"({"command": ["sh", "-c", "echo $$; exec sleep 600"]})", 1, "command");
    while (!logged(0).ends_with("\n")) ::usleep(1000);
    const std::string pid = log(0).substr(0, log(0).size() - 1);
    const io::Descriptor held(::open(("/proc/" + pid + "/fd/1").c_str(), O_WRONLY));
    ASSERT_TRUE(held);
    supervisor_->kill(key_);
    wait<Gone>();
    EXPECT_EQ(log(0), pid + "\n");
}

TEST_F(SupervisorTest, AStopReachesStdinAndTheGroup) {
    start(R"({"rank": ["deaf", "ready", "stop", "exit 75"]})");
    wait<Reported>();
    supervisor_->tell(key_, protocol::StopAtStep{true});
    supervisor_->terminate(key_);
    wait<Gone>();
    EXPECT_EQ(wait<Exited>().exit, (ExitStatus{false, 75}));
}

TEST_F(SupervisorTest, SigtermEndsWhatDoesNotListen) {
    start(R"({"command": ["sh", "-c", "echo up; exec sleep 600"]})", 1, "command");
    while (logged(0).empty()) ::usleep(1000);
    supervisor_->terminate(key_);
    wait<Gone>();
    EXPECT_EQ(wait<Exited>().exit, (ExitStatus{true, SIGTERM}));
}

TEST_F(SupervisorTest, AKillTakesWhatIgnoresSigtermAndItsGrandchildren) {
    start(R"({"rank": ["deaf", "child", "ready", "hang"]})", 2);
    wait<Reported>(2);
    supervisor_->terminate(key_);
    supervisor_->kill(key_);
    wait<Gone>();
    EXPECT_EQ(wait<Exited>().exit, (ExitStatus{true, SIGKILL}));
    EXPECT_TRUE(nothing_left());
}

TEST_F(SupervisorTest, WhatACommandLeavesBehindGoesWithIt) {
    start(R"({"command": ["sh", "-c", "setsid sleep 600 & sleep 600 & exit 3"]})", 1, "command");
    wait<Gone>();
    EXPECT_EQ(wait<Exited>().exit, (ExitStatus{false, 3}));
    EXPECT_TRUE(nothing_left());
}

TEST_F(SupervisorTest, TheGuardKillsWhenTheLeashRunsOut) {
    start(R"({"rank": ["child", "ready", "hang"]})");
    wait<Reported>();
    supervisor_->set_leash({key_, boot_now(), boot_now()});
    wait<LeashRanOut>();
    wait<Gone>();
    EXPECT_TRUE(nothing_left());
}

TEST_F(SupervisorTest, NothingIsStartedOnceTheLeaseIsOver) {
    start(R"({"rank": ["ready"]})", 1, "train", seconds(0));
    EXPECT_EQ(wait<StartFailed>().verdict.outcome, Outcome::Infra);
    wait<Gone>();
    EXPECT_EQ(count<Exited>(), 0);
}

TEST_F(SupervisorTest, JunkIsToldOnceAndDoesNoHarm) {
    start(R"({"rank": ["junk", "junk", "ready", "exit 0"]})");
    EXPECT_TRUE(std::holds_alternative<protocol::Ready>(wait<Reported>().report));
    wait<Gone>();
    EXPECT_EQ(count<Junk>(), 1);
}

// A plan of several megabytes is sent in parts. An order that is given meanwhile is sent after the
// plan.
TEST_F(SupervisorTest, AnOrderToEndIsNotLostBehindALargePlan) {
    const std::string script = "#!/bin/sh\n#" + std::string(3u << 20, 'x') + "\nsleep 600\n";
    start(Json{{"command", {"x"}}, {"script", script}}.dump(), 1, "command");
    supervisor_->kill(key_);
    wait<Gone>();
    EXPECT_TRUE(nothing_left());
}

TEST_F(SupervisorTest, ADocumentThatIsNoJobFileIsInvalid) {
    start(R"({"command": ["true"], "retry": {"on_log": ["stop"]}})", 1, "command");
    const Verdict verdict = wait<StartFailed>().verdict;
    EXPECT_EQ(verdict.outcome, Outcome::Invalid);
    EXPECT_NE(verdict.reason.find("is not a valid job file"), std::string::npos) << verdict.reason;
    wait<Gone>();
}

TEST_F(SupervisorTest, WhatCannotStartSaysWhy) {
    start(R"({"command": ["/nowhere/prog"]})", 1, "command");
    EXPECT_EQ(
        wait<StartFailed>().verdict,
        (Verdict{Outcome::Invalid, 127, "cannot run /nowhere/prog: No such file or directory"}));
    wait<Gone>();
}

TEST_F(SupervisorTest, AnArgumentThatIsTooLongForTheKernelIsTheJobsFault) {
    start(Json{{"command", {"true", std::string(200'000, 'x')}}}.dump(), 1, "command");
    EXPECT_EQ(wait<StartFailed>().verdict,
              (Verdict{Outcome::Invalid, 126, "cannot run true: Argument list too long"}));
    wait<Gone>();
}

TEST_F(SupervisorTest, AnOutputThatIsDeletedFailsAProgramThatEndsWell) {
    start(R"({"command": ["sh", "-c", "rm -r $ROLL_OUTPUT"]})", 1, "command");
    const Verdict verdict = wait<StartFailed>().verdict;
    EXPECT_EQ(verdict.outcome, Outcome::App);
    EXPECT_NE(verdict.reason.find((folder_ / "out").string() + " was deleted"), std::string::npos);
    wait<Gone>();
}

TEST_F(SupervisorTest, ALogIsCutWhileItIsCopied) {
    start(R"({"command": ["sh", "-c", "yes | head -c 30000000; echo last; sleep 600"],
              "log_size": "1MB"})",
          1, "command");
    while (!logged(0).ends_with("last\n")) ::usleep(1000);
    EXPECT_LT(std::filesystem::file_size(log_file(0)), 1'400'000u);
    supervisor_->kill(key_);
    wait<Gone>();
}

TEST_F(SupervisorTest, AMissingRankProgramIsNotTheJobsFault) {
    std::filesystem::remove(folder_ / "roll-rank");
    start(R"({"rank": ["ready"]})");
    EXPECT_EQ(wait<StartFailed>().verdict.outcome, Outcome::Infra);
    wait<Gone>();
}

TEST_F(SupervisorTest, AnOutputThatCannotBeMadeIsInvalid) {
    std::ofstream(folder_ / "out") << "a file\n";
    start(R"({"rank": ["ready"]})");
    const Verdict verdict = wait<StartFailed>().verdict;
    EXPECT_EQ(verdict.outcome, Outcome::Invalid);
    EXPECT_NE(verdict.reason.find((folder_ / "out").string()), std::string::npos);
    wait<Gone>();
}

// Nobody can make a directory in /sys.
TEST_F(SupervisorTest, AnOutputThatMayNotBeWrittenIsTheJobsOwnFault) {
    for (const char* const kind : {"command", "train"}) {
        protocol::StartOrder refused =
            order(R"({"command": ["true"], "rank": ["ready"]})", 1, kind);
        refused.output = "/sys/roll-test-output";
        supervisor_->start({refused, boot_now() + seconds(600), boot_now() + seconds(600)});
        const Verdict verdict = wait<StartFailed>().verdict;
        EXPECT_EQ(verdict.outcome, Outcome::App) << verdict.reason;
        EXPECT_EQ(verdict.exit_code, protocol::kExitRefused);
        wait<Gone>();
        next_attempt();
    }
}

// The worker's journal can no longer grow, as on a full disk.
TEST_F(SupervisorTest, AFullFolderOfTheWorkerIsNotTheJobsFault) {
    start(R"({"rank": ["ready", "exit 0"]})");
    wait<Gone>();
    next_attempt();
    for (const auto& file : std::filesystem::directory_iterator(folder_ / "worker"))
        std::ofstream(file.path(), std::ios::app) << std::string(5000, '\n');
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit page{.rlim_cur = 4096, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &page), 0);
    start(R"({"rank": ["ready"]})");
    const Verdict verdict = wait<StartFailed>().verdict;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(verdict.outcome, Outcome::Infra) << verdict.reason;
    EXPECT_TRUE(verdict.reason.starts_with("cannot write " + (folder_ / "worker").string()));
    wait<Gone>();
}

TEST_F(SupervisorTest, ACommandLineThatIsTooLongIsTheJobsOwnFault) {
    const std::string words(200'000, 'x');
    start(R"({"command": ["true", ")" + words + R"("]})", 1, "command");
    const Verdict verdict = wait<StartFailed>().verdict;
    EXPECT_EQ(verdict.outcome, Outcome::Invalid) << verdict.reason;
    EXPECT_EQ(verdict.exit_code, 126);
    wait<Gone>();
}

TEST_F(SupervisorTest, AKilledGuardLeavesNothing) {
    start(R"({"rank": ["child", "ready", "hang"]})");
    wait<Reported>();
    for (const io::ProcessInfo& process : io::descendants(::getpid()))
        if (process.parent == ::getpid()) ::kill(process.pid, SIGKILL);
    wait<Gone>();
    EXPECT_TRUE(nothing_left());
}

TEST_F(SupervisorTest, AGuardWithNothingLeftBelowItServesAgain) {
    start(R"({"command": ["sh", "-c", "setsid sleep 600 & exit 3"]})", 1, "command");
    wait<Gone>();
    const std::set<pid_t> first = guards();
    ASSERT_EQ(first.size(), 1u);
    EXPECT_TRUE(nothing_left());
    next_attempt();
    start(R"({"rank": ["ready", "recorded 10", "exit 0"]})", 2);
    wait<Reported>(2);
    EXPECT_EQ(guards(), first);
    supervisor_->tell(key_, protocol::RecordedStep{10});
    wait<Gone>();
    EXPECT_EQ(wait<Exited>(2).exit, (ExitStatus{false, 0}));
    next_attempt();
    start(R"({"rank": ["child", "ready", "hang"]})");
    wait<Reported>();
    supervisor_->set_leash({key_, boot_now(), boot_now()});
    wait<LeashRanOut>();
    wait<Gone>();
    EXPECT_TRUE(nothing_left());
    EXPECT_EQ(guards(), first);
}

TEST_F(SupervisorTest, OrdersForWhatHasEndedDoNotReachTheNextAttempt) {
    start(R"({"command": ["true"]})", 1, "command");
    // until the supervisor has collected the end of the program, which may be killed before it
    // starts
    while (count<Exited>() + count<Gone>() == 0) {
        supervisor_->kill(key_);
        for (ProcessEvent& event : supervisor_->collect()) events_.push_back(std::move(event));
    }
    wait<Gone>();
    next_attempt();
    start(R"({"command": ["sh", "-c", "exit 4"]})", 1, "command");
    wait<Gone>();
    EXPECT_EQ(wait<Exited>().exit, (ExitStatus{false, 4}));
}

TEST_F(SupervisorTest, AGuardThatDiedWhileItWaitedIsReplaced) {
    supervisor_->stand_by();
    std::set<pid_t> first = guards();
    // wait until a guard that is ending has gone
    for (; first.size() != 1; first = guards()) ::usleep(1000);
    ::kill(*first.begin(), SIGKILL);
    while (!guards().empty()) ::usleep(1000);
    start(R"({"command": ["true"]})", 1, "command");
    wait<Gone>();
    EXPECT_EQ(wait<Exited>().exit, (ExitStatus{false, 0}));
    EXPECT_EQ(guards().size(), 1u);
}

TEST_F(SupervisorTest, MoreDescriptorsThanAMessageTakesReachTheGuard) {
    constexpr int kRanks = 130;
    start(R"({"rank": ["ready", "exit 0"]})", kRanks);
    wait<Reported>(kRanks);
    wait<Gone>();
    EXPECT_EQ(wait<Exited>(kRanks).exit, (ExitStatus{false, 0}));
}

TEST_F(SupervisorTest, WhatAProgramDidNotReadDoesNotReachTheNextOne) {
    start(R"({"command": ["sleep", "600"]})", 1, "command");
    supervisor_->tell(key_, protocol::RecordedStep{1});
    supervisor_->kill(key_);
    wait<Gone>();
    next_attempt();
    start(R"({"command": ["sh", "-c", "read line; echo got $line"]})", 1, "command");
    supervisor_->tell(key_, protocol::RecordedStep{2});
    wait<Gone>();
    EXPECT_NE(read_file(folder_ / "out/logs/attempt-2/rank-0.log").value().find(":2"),
              std::string::npos);
}

TEST_F(SupervisorTest, AnAttemptWaitsForTheMemoryOfItsGpusAndItsLogSaysSo) {
    start_on_held_gpu();
    while (logged(0).empty()) ::usleep(1000);
    EXPECT_EQ(
        log(0),
        "roll-worker: waiting for GPU memory: GPU 0 has 3072 MiB in use (512 MiB at most): process "
        "4711 3072 MiB\n");
    std::filesystem::remove(folder_ / "held");
    wait<Gone>();
    EXPECT_EQ(wait<Exited>().exit, (ExitStatus{false, 0}));
    EXPECT_NE(log(0).find("roll-worker: GPU memory is free after "), std::string::npos);
    EXPECT_TRUE(log(0).ends_with("\nran\n"));
}

TEST_F(SupervisorTest, GpusThatStayHeldEndTheAttemptAsInfraAndNameTheProcess) {
    gpu_wait_ = 1;
    start_on_held_gpu();
    const Verdict verdict = wait<StartFailed>().verdict;
    EXPECT_EQ(verdict.outcome, Outcome::Infra);
    EXPECT_EQ(verdict.exit_code, protocol::kExitUnfit);
    EXPECT_NE(verdict.reason.find("GPU 0 has 3072 MiB in use (512 MiB at most): process 4711"),
              std::string::npos);
    wait<Gone>();
    EXPECT_EQ(count<Exited>(), 0);
    EXPECT_NE(log(0).find("roll-worker: giving up after 1 s"), std::string::npos);
}

TEST_F(SupervisorTest, TheNextWorkerEndsAndReportsWhatThisOneLeft) {
    protocol::RunningAttempt entry;
    entry.attempt = kKey;
    entry.phase = Phase::Running;
    entry.checkpoints = {{.step = 5, .directory = "/out/checkpoints/step-5"}};
    ASSERT_TRUE(run_directory_->remember(entry));
    start(R"({"rank": ["child", "ready", "hang"]})");
    wait<Reported>();
    EXPECT_FALSE(RunDirectory::open(folder_ / "worker", "x"));  // the directory is in use
    for (const io::ProcessInfo& process : io::descendants(::getpid()))
        if (process.parent == ::getpid())
            ::kill(process.pid, SIGSTOP);  // stop the guards, so that none of them acts
    restart();
    const auto left = run_directory_->end_leftovers();
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].attempt, kKey);
    EXPECT_EQ(left[0].checkpoints.size(), 1u);
    EXPECT_TRUE(nothing_left());
    EXPECT_TRUE(guards().empty());
    run_directory_->forget(kKey);
    restart();
    EXPECT_TRUE(run_directory_->end_leftovers().empty());
}

}  // namespace
}  // namespace roll::agent

int main(int argc, char** argv) {
    const int status = roll::agent::run_as_dummy({argv, argv + argc});
    if (status >= 0) return status;
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
