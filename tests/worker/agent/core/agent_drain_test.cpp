// Tests AgentCore's decisions when roll-worker is asked to end.
#include "tests/worker/agent/core/agent_core_fixture.hpp"

namespace roll::agent {
namespace {

TEST_F(AgentCoreTest, ADrainingWorkerStopsAllAndStartsNothing) {
    run();
    core_.on_drain(now_);
    collect();
    EXPECT_EQ(count<Terminate>(), 1);
    exchange({.start = {order({.job = {8}, .token = {1, 1}})}});
    EXPECT_EQ(count<Start>(), 0);
    EXPECT_FALSE(core_.idle());
    exit(0, {false, 75});
    exit(1, {false, 75});
    gone();
    EXPECT_TRUE(core_.idle());
    EXPECT_EQ(entry().outcome, Outcome::Yielded);
}

TEST_F(AgentCoreTest, ACommandThatFailsShortlyBeforeTheDrainWasStopped) {
    run(1, "command");
    exit(0, {true, 15});
    gone();
    EXPECT_EQ(entry().phase, Phase::Stopping) << "Slurm's signal may be about to come here, too";
    core_.on_drain(now_ + Millis{900});
    EXPECT_EQ(entry().outcome, Outcome::Infra);
    EXPECT_EQ(entry().exit_code, 143);
    EXPECT_EQ(entry().reason, "roll-worker was asked to end");
}

TEST_F(AgentCoreTest, ACommandThatSavesShortlyBeforeTheDrainYields) {
    run(1, "command");
    exit(0, {false, 75});
    gone();
    core_.on_drain(now_);
    EXPECT_EQ(entry().outcome, Outcome::Yielded);
}

TEST_F(AgentCoreTest, AProgramOfACommandThatFailsLeavesTheOthersTimeForTheDrain) {
    protocol::StartOrder gang = order(kKey, 1, "command");
    gang.tasks_per_node = 2;
    exchange({.start = {gang}});
    effects_.clear();
    exit(0, {true, 15});
    EXPECT_EQ(count<Kill>(), 0);
    core_.on_drain(now_);
    collect();
    EXPECT_EQ(count<Terminate>(), 1);
    pass(Millis{1000});
    EXPECT_EQ(count<Kill>(), 0);
    exit(1, {false, 75});
    gone();
    EXPECT_EQ(entry().outcome, Outcome::Infra);
}

TEST_F(AgentCoreTest, ACommandThatFailsWithoutADrainHasFailed) {
    protocol::StartOrder gang = order(kKey, 1, "command");
    gang.tasks_per_node = 2;
    exchange({.start = {gang}});
    effects_.clear();
    exit(1, {false, 1});
    pass(Millis{999});
    EXPECT_EQ(count<Kill>(), 0);
    pass(Millis{1});
    EXPECT_EQ(count<Kill>(), 1);
    exit(0, {true, 9});
    gone();
    EXPECT_EQ(entry().outcome, Outcome::App);
    EXPECT_EQ(entry().exit_code, 1);
    core_.on_drain(now_);
    EXPECT_EQ(entry().outcome, Outcome::App);
}

TEST_F(AgentCoreTest, ACommandThatFailedLongBeforeTheDrainHasFailedEvenIfItsEndIsSlow) {
    run(1, "command");
    exit(0, {true, 15});
    pass(Millis{1000});
    core_.on_drain(now_);
    gone();
    EXPECT_EQ(entry().outcome, Outcome::App);
    EXPECT_EQ(entry().exit_code, 143);
}

TEST_F(AgentCoreTest, TheHoldOfAFailureEndsOnTime) {
    run(1, "command");
    EXPECT_EQ(core_.hold_left(now_), Millis::max());
    exit(0, {false, 1});
    gone();
    now_ += Millis{400};
    EXPECT_EQ(core_.hold_left(now_), Millis{600});
    pass(Millis{600});
    EXPECT_EQ(entry().phase, Phase::Ended);
    EXPECT_EQ(core_.hold_left(now_), Millis::max());
}

}  // namespace
}  // namespace roll::agent
