// How the end of an attempt is classified and counted.
#include "tests/daemon/core/desk.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

class Classes : public testing::Test {
  protected:
    Classes() {
        desk.join("n", 1);
        spec = wants(1, 1);
        spec.retry = {.infra = 2, .app = 0};
    }
    void fail(JobId id, Outcome outcome, int code) {
        desk.exit(id, outcome, code, "it broke");
        desk.pass(1h);
    }
    void checkpoint(JobId id, std::int64_t step) {
        desk.tell(CheckpointWritten{desk.worker_of(id), desk.attempt(id), step, "/c"});
    }
    Desk desk;
    spec::JobSpec spec;
};

TEST_F(Classes, TimeLimitHasABudgetOfItsOwn) {
    spec.resources.time = 1min;
    spec.retry.timeout = 1;
    const JobId id = desk.submit(spec);
    desk.pass(1min);
    desk.exit(id, Outcome::Yielded, 75);
    EXPECT_EQ(desk.job(id).timeouts, 1);
    ASSERT_EQ(desk.job(id).phase, JobPhase::Running) << "at once";
    desk.pass(1min);
    desk.exit(id, Outcome::Stopped, 143);
    EXPECT_EQ(desk.job(id).phase, JobPhase::Failed);
    EXPECT_EQ(desk.job(id).reason, "reached its time limit; retry.timeout: 1 is used up");
    EXPECT_EQ(desk.job(id).infra_failures, 0);
}

TEST_F(Classes, ATimeLimitLeavesTimeToSaveAsLearned) {
    spec.kind = spec::JobKind::Train;
    spec.resources.time = 1h;
    spec.retry.timeout = 1;
    const JobId id = desk.submit(spec);
    EXPECT_EQ(next_wakeup(desk.state, desk.now), desk.now + 1h) << "nothing is known of its saves";
    const auto saved = [&](std::int64_t step, std::int64_t ms) {
        desk.tell(CheckpointWritten{desk.worker_of(id), desk.attempt(id), step, "/c", 0, ms});
    };
    saved(10, 20'000);
    saved(20, 30'000);
    EXPECT_EQ(next_wakeup(desk.state, desk.now), desk.now + 1h - 90s) << "30 s, and 60 s";
    desk.pass(1h - 90s);
    EXPECT_EQ(desk.job(id).attempt->phase, AttemptPhase::Stopping);
    saved(30, 1);
    desk.exit(id, Outcome::Yielded, 75);
    EXPECT_EQ(desk.job(id).timeouts, 1);
    saved(40, 3'000'000);
    EXPECT_EQ(next_wakeup(desk.state, desk.now), desk.now + 45min) << "a quarter at most";
}

TEST_F(Classes, BackOffIsTheJobsOwn) {
    spec.retry = {.infra = 5, .app = 0};
    spec.retry.backoff = 10s;
    spec.retry.backoff_max = 25s;
    const JobId id = desk.submit(spec);
    for (const auto wait : {10s, 20s, 25s, 25s}) {
        desk.exit(id, Outcome::Infra);
        EXPECT_EQ(desk.job(id).not_before, desk.now + wait);
        desk.pass(wait);
    }
}

TEST_F(Classes, ExitCodesHaveMeanings) {
    spec.retry = {.infra = 1, .app = 5};
    spec.retry.on_exit = {{93, {spec::OnExit::Stop, ""}}, {41, {spec::OnExit::Retry, ""}}};
    const JobId stops = desk.submit(spec);
    fail(stops, Outcome::App, 93);
    EXPECT_EQ(desk.job(stops).phase, JobPhase::Failed);
    EXPECT_EQ(desk.job(stops).exit_code, 93);
    const JobId again = desk.submit(spec);
    fail(again, Outcome::App, 41);
    EXPECT_EQ(desk.job(again).infra_failures, 1);
    EXPECT_EQ(desk.job(again).app_failures, 0);
    fail(again, Outcome::App, 41);
    EXPECT_EQ(desk.job(again).phase, JobPhase::Failed);
}

TEST_F(Classes, AnOutputThatCannotBeWrittenIsNotRetried) {
    spec.retry = {.infra = 5, .app = 5};
    spec.kind = spec::JobKind::Train;
    const JobId once = desk.submit(spec);
    fail(once, Outcome::App, kExitRefused);
    EXPECT_EQ(desk.job(once).phase, JobPhase::Failed);
    EXPECT_EQ(desk.job(once).reason, "it broke");
    EXPECT_TRUE(desk.state.machines.empty());
    spec.retry.on_exit = {{kExitRefused, {spec::OnExit::Retry, ""}}};
    const JobId asked = desk.submit(spec);
    fail(asked, Outcome::App, kExitRefused);
    EXPECT_EQ(desk.job(asked).infra_failures, 1);
    desk.exit(asked, Outcome::Done);
    spec.retry.on_exit.clear();
    spec.kind = spec::JobKind::Command;
    const JobId command = desk.submit(spec);
    fail(command, Outcome::App, kExitRefused);
    EXPECT_EQ(desk.job(command).app_failures, 1) << "the status is the command's own";
}

TEST_F(Classes, AnExitCodeCanShunTheNode) {
    desk.join("other", 2);
    spec.retry.on_exit = {{41, {spec::OnExit::AvoidNode, "shunned"}}};
    const JobId id = desk.submit(spec);
    ASSERT_EQ(desk.job(id).attempt->nodes, std::vector<std::string>{"n"});
    fail(id, Outcome::App, 41);
    EXPECT_EQ(desk.job(id).attempt->nodes, std::vector<std::string>{"other"});
    fail(id, Outcome::App, 41);
    EXPECT_EQ(desk.job(id).avoid, (std::set<std::string>{"n", "other"}));
    EXPECT_EQ(desk.job(id).phase, JobPhase::Running) << "somewhere, if all are shunned";
}

TEST_F(Classes, ALineOfTheLogHasAMeaningToo) {
    desk.join("other", 2);
    spec.retry = {.infra = 5, .app = 0};
    spec.retry.on_log = {{"ECC", {spec::OnExit::AvoidNode, "ecc"}},
                         {"no such file", {spec::OnExit::Stop, ""}},
                         {"slow", {std::nullopt, "slow"}}};
    const auto matched = [&](JobId id, Outcome outcome, std::vector<int> patterns) {
        desk.tell(MemberExited{desk.worker_of(id), desk.attempt(id), outcome, 1, "it broke",
                               std::move(patterns)});
        desk.pass(1h);
    };
    const JobId id = desk.submit(spec);
    matched(id, Outcome::App, {0, 2, 17});
    EXPECT_EQ(desk.job(id).infra_failures, 1) << "not the program's own";
    EXPECT_EQ(desk.job(id).labels, (std::set<std::string>{"ecc", "slow"}));
    EXPECT_EQ(desk.job(id).attempt->nodes, std::vector<std::string>{"other"});
    matched(id, Outcome::Infra, {0, 1});
    EXPECT_EQ(desk.job(id).phase, JobPhase::Failed) << "the strictest counts";
    EXPECT_EQ(desk.job(id).reason, "it broke; the log contains: no such file");
    const JobId fine = desk.submit(spec);
    desk.exit(fine, Outcome::Done);
    EXPECT_TRUE(desk.job(fine).labels.empty());
}

TEST_F(Classes, ANodeWhereItFailedTwiceIsShunned) {
    desk.join("other", 2);
    spec.retry = {.infra = 100, .app = 0};
    const JobId id = desk.submit(spec);
    fail(id, Outcome::Infra, 137);
    EXPECT_TRUE(desk.job(id).avoid.empty()) << "once is chance";
    ASSERT_EQ(desk.job(id).attempt->nodes, std::vector<std::string>{"n"});
    fail(id, Outcome::Infra, 137);
    EXPECT_EQ(desk.job(id).avoid, std::set<std::string>{"n"});
    EXPECT_EQ(desk.job(id).attempt->nodes, std::vector<std::string>{"other"});
}

// A node on which everything fails is free while others are busy, and would use up all retries.
TEST_F(Classes, AShunnedNodeIsNotUsedWhileOthersAreBusy) {
    desk.join("other", 1);
    spec.retry.on_exit = {{41, {spec::OnExit::AvoidNode, "shunned"}}};
    const JobId id = desk.submit(spec);
    ASSERT_EQ(desk.job(id).attempt->nodes, std::vector<std::string>{"n"});
    const JobId busy = desk.submit(spec);
    ASSERT_EQ(desk.job(busy).attempt->nodes, std::vector<std::string>{"other"});
    fail(id, Outcome::App, 41);
    EXPECT_EQ(desk.job(id).phase, JobPhase::Queued);
    const JobId young = desk.submit(spec);
    EXPECT_EQ(desk.job(young).attempt->nodes, std::vector<std::string>{"n"})
        << "which is not kept for who does not want it";
    desk.exit(busy, Outcome::Done);
    EXPECT_EQ(desk.job(id).attempt->nodes, std::vector<std::string>{"other"});
}

TEST_F(Classes, NoProgressStopsAJobThatTrains) {
    spec.kind = spec::JobKind::Train;
    spec.retry = {.infra = 100, .app = 0};
    const JobId id = desk.submit(spec);
    checkpoint(id, 10);
    fail(id, Outcome::Infra, 137);
    fail(id, Outcome::Infra, 137);
    checkpoint(id, 20);
    fail(id, Outcome::Infra, 137);
    EXPECT_EQ(desk.job(id).stalled, 0) << "a newer checkpoint is progress";
    fail(id, Outcome::Infra, 137);
    fail(id, Outcome::Infra, 137);
    ASSERT_EQ(desk.job(id).phase, JobPhase::Running);
    fail(id, Outcome::Infra, 137);
    EXPECT_EQ(desk.job(id).phase, JobPhase::Failed);
    EXPECT_EQ(
        desk.job(id).reason,
        "no checkpoint after step 20 in 3 failed attempts; the last one failed with: it broke");
}

TEST_F(Classes, YieldsAndCommandsNeedNoProgress) {
    spec.retry = {.infra = 100, .app = 0};
    const JobId command = desk.submit(spec);
    for (int i = 0; i < 5; ++i) fail(command, Outcome::Infra, 137);
    EXPECT_EQ(desk.job(command).phase, JobPhase::Running);
    desk.exit(command, Outcome::Done);
    spec.kind = spec::JobKind::Train;
    const JobId train = desk.submit(spec);
    for (int i = 0; i < 5; ++i) fail(train, Outcome::Yielded, 75);
    EXPECT_EQ(desk.job(train).phase, JobPhase::Running);
}

}  // namespace
}  // namespace roll::core
