// Tests what attempts use and how their limits are enforced, on the mechanisms of this machine.
#include "tests/worker/agent/process/supervisor_fixture.hpp"

namespace roll::agent {
namespace {

class UsageTest : public SupervisorTest {
  protected:
    // Runs a command whose grandchild `tail` takes 900 MB, with a limit of 256 MiB.
    void run_out_of_memory();
};

void UsageTest::run_out_of_memory() {
    memory_ = 256 << 20;
    start(R"({"command": ["sh", "-c", "head -c 900M /dev/zero | tail -c 900M > x; sleep 60"]})", 1,
          "command");
    const Verdict verdict = wait<StartFailed>().verdict;
    wait<Gone>();
    EXPECT_EQ(verdict.outcome, Outcome::App);
    EXPECT_EQ(verdict.exit_code, 137);
    EXPECT_TRUE(verdict.reason.starts_with("out of memory: used ")) << verdict.reason;
    EXPECT_NE(verdict.reason.find(" of 256 MiB (tail, pid "), std::string::npos) << verdict.reason;
    EXPECT_TRUE(nothing_left());
    EXPECT_GE(wait<Used>().usage.memory_peak, 64 << 20);
}

TEST_F(UsageTest, AnAttemptWithoutACgroupIsEndedOnceItUsesTooMuchMemory) { run_out_of_memory(); }

TEST_F(UsageTest, AnAttemptIsEndedByTheLimitsOfThisMachine) {
    limiter_ = Limiter::choose("", "test-" + std::to_string(::getpid()));
    RecordProperty("limits", limiter_.text());
    restart();
    run_out_of_memory();
    for (const std::string& directory : limiter_.directories()) {
        EXPECT_TRUE(std::filesystem::is_directory(directory));
        remove_cgroup(directory);
        EXPECT_FALSE(std::filesystem::exists(directory)) << "a cgroup of an attempt is left";
    }
}

TEST_F(UsageTest, ARunningAttemptTellsItsProcessorTime) {
    // The inner shell uses processor time and ends; the outer shell runs on.
    start(
        R"({"command": ["sh", "-c", "sh -c 'head -c 40M /dev/zero | cksum > x'; while :; do :; done"]})",
        1, "command");
    EXPECT_GT(wait<CpuUsed>().ms, 100);
    supervisor_->kill(kKey);
    wait<Gone>();
}

TEST_F(UsageTest, WhatAnAttemptUsedIncludesItsGrandchildren) {
    start(R"({"command": ["sh", "-c",
                          "sh -c 'head -c 40M /dev/zero | tail -c 40M | cksum > x'"]})",
          1, "command");
    wait<Gone>();
    const Usage usage = wait<Used>().usage;
    EXPECT_GT(usage.cpu_ms, 0);
    EXPECT_GE(usage.memory_peak, 40'000'000);
    EXPECT_LT(usage.memory_peak, 400'000'000);
    EXPECT_GT(usage.wall_ms, 0);
    next_attempt();
    start(R"({"command": ["true"]})", 1, "command");
    wait<Gone>();
    EXPECT_LT(wait<Used>().usage.memory_peak, 40'000'000) << "the guard serves again";
}

}  // namespace
}  // namespace roll::agent
