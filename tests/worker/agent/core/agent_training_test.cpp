// Tests AgentCore's decisions for a training job: its steps, saves and hangs.
#include "tests/worker/agent/core/agent_core_fixture.hpp"

namespace roll::agent {
namespace {

TEST_F(AgentCoreTest, SaysHowBusyAnAttemptsGpusAre) {
    protocol::StartOrder gpus = order(kKey, 1, "command");
    gpus.gpus = {1, 3, 5};
    exchange({.start = {gpus}});
    EXPECT_EQ(entry().progress, "");
    core_.sample_use({100, 20, 100, 41}, now_);  // the use of GPU 5 is missing
    EXPECT_EQ(entry().progress, R"({"gpu_percent":31})");
    core_.sample_use({0, -1, 0, -1}, now_);
    EXPECT_EQ(entry().progress, "");
}

TEST_F(AgentCoreTest, SaysHowMuchMemoryAnAttemptUses) {
    exchange({.start = {order(kKey, 1, "command")}});
    core_.sample_use({}, now_);
    EXPECT_EQ(entry().progress, "") << "nothing is measured yet";
    core_.on_memory(kKey, 3 << 20);
    core_.sample_use({}, now_);
    core_.on_memory(kKey, 1 << 20);
    core_.sample_use({}, now_ + Millis(4000));
    EXPECT_EQ(entry().progress,
              R"({"memory":1048576,"memory_curve":{"every_s":2,"mebibytes":[3,3,1]}})");
}

TEST_F(AgentCoreTest, SaysHowMuchProcessorTimeAnAttemptUses) {
    exchange({.start = {order(kKey, 1, "command")}});
    core_.on_cpu_time(kKey, 2500);
    EXPECT_EQ(entry().progress, R"({"cpu_ms":2500})");
}

// An older rolld would take the processor time of a further node for the progress of the job.
TEST_F(AgentCoreTest, AFurtherNodeSaysItsProcessorTimeOnlyIfRolldAddsItUp) {
    protocol::StartOrder further = order(kKey, 1, "command");
    further.node_rank = 1;
    exchange({.start = {further}});
    core_.on_cpu_time(kKey, 2500);
    EXPECT_EQ(entry().progress, "");
    const AttemptKey other{.job = {8}, .token = {1, 1}};
    further.attempt = other;
    further.adds_cpu_times = true;
    exchange({.keep = {kKey}, .start = {further}});
    core_.on_cpu_time(other, 2500);
    EXPECT_EQ(entry(other).progress, R"({"cpu_ms":2500})");
}

TEST_F(AgentCoreTest, ARequestForACheckpointReachesTheRanksOnceAndItsAnswerGoesUp) {
    run();
    exchange({.keep = {kKey}, .save = {{kKey, 1}}});
    exchange({.keep = {kKey}, .save = {{kKey, 1}}});
    EXPECT_EQ(count<Tell>(), 1);
    EXPECT_EQ(std::get<protocol::SaveNow>(first<Tell>().command).asked, 1u);
    exchange({.keep = {kKey}, .save = {{kKey, 2}}});
    EXPECT_EQ(count<Tell>(), 2);
    report(0, protocol::CheckpointStaged{7, "/out/checkpoints/.step-7.1-1", 2});
    core_.on_published(kKey, 7, {}, now_);
    ASSERT_EQ(entry().checkpoints.size(), 1u);
    EXPECT_EQ(entry().checkpoints.front().asked, 2u);
}

TEST_F(AgentCoreTest, ARequestReachesTheRanksOnceAndItsAnswerGoesUpUntilItIsRecorded) {
    run();
    const protocol::TellOrder order{kKey, {1, RequestKind::Profile, 5}};
    exchange({.keep = {kKey}, .tell = {order}});
    exchange({.keep = {kKey}, .tell = {order}});
    EXPECT_EQ(count<Tell>(), 1);
    EXPECT_EQ(std::get<protocol::Asked>(first<Tell>().command).request, order.request);
    report(0, protocol::Answered{{2, 7, 0, "of no request"}});
    EXPECT_TRUE(entry().answers.empty());
    for (int i = 0; i < 2; ++i) report(0, protocol::Answered{{1, 7, 0, "done"}});
    ASSERT_EQ(entry().answers.size(), 1u);
    exchange({.keep = {kKey}, .tell = {order}});
    EXPECT_EQ(count<Tell>(), 1) << "rolld has not read the answer yet";
    EXPECT_EQ(entry().answers.size(), 1u);
    exchange({.keep = {kKey}, .recorded = {{.attempt = kKey, .steps = {}, .answered = 1}}});
    EXPECT_TRUE(entry().answers.empty());
}

TEST_F(AgentCoreTest, ExportsOfCheckpointsGoUpUntilTheyAreRecorded) {
    run();
    report(0, protocol::CheckpointExported{{20, "/export/hf-step-00000020", 20}});
    report(0, protocol::CheckpointExported{{40, "/export/hf-step-00000040", 20}});
    EXPECT_EQ(entry().exports.size(), 2u);
    exchange({.keep = {kKey}, .recorded = {{.attempt = kKey, .steps = {}, .export_step = 20}}});
    ASSERT_EQ(entry().exports.size(), 1u);
    EXPECT_EQ(entry().exports.front().step, 40);
}

TEST_F(AgentCoreTest, ARequestWhoseCheckpointCouldNotBePublishedIsMadeAgain) {
    run();
    exchange({.keep = {kKey}, .save = {{kKey, 1}}});
    report(0, protocol::CheckpointStaged{7, "/out/checkpoints/.step-7.1-1", 1});
    core_.on_published(kKey, 7, fail(ErrorCode::Failed, "no such directory"), now_);
    EXPECT_TRUE(entry().checkpoints.empty());
    exchange({.keep = {kKey}, .save = {{kKey, 1}}});
    EXPECT_EQ(count<Tell>(), 2);
    exchange({.keep = {kKey}, .save = {{kKey, 1}}});
    EXPECT_EQ(count<Tell>(), 2) << "once for each try";
}

TEST_F(AgentCoreTest, AnAttemptThatHangsGivesItsStacksAndEndsAsInfra) {
    protocol::StartOrder hangs = order(kKey);
    hangs.hang_after_seconds = 10;
    exchange({.start = {hangs}});
    for (const int rank : {0, 1}) report(rank, protocol::Ready{});
    for (const int rank : {0, 1}) report(rank, protocol::StepDone{3 + rank, 100, 20});
    report(1, protocol::Failed{"rank 0 never issued it"});
    effects_.clear();
    for (int second = 0; second < 9; ++second) {
        keep();
        pass(seconds(1));
    }
    EXPECT_EQ(count<DumpStacks>(), 0);
    for (int second = 0; second < 2; ++second) {
        keep();
        pass(seconds(1));
    }
    EXPECT_EQ(count<DumpStacks>(), 1);
    EXPECT_EQ(count<Kill>(), 0) << "not before they are written";
    for (int second = 0; second < 6; ++second) {
        keep();
        pass(seconds(1));
    }
    EXPECT_EQ(count<Kill>(), 1);
    gone();
    EXPECT_EQ(entry().outcome, Outcome::Infra);
    EXPECT_EQ(entry().exit_code, protocol::kExitHung);
    EXPECT_NE(entry().reason.find("after step 3 (at most 10 s)"), std::string::npos);
    EXPECT_TRUE(entry().reason.ends_with("; rank 0 never issued it")) << entry().reason;
}

// New progress reports of rank 0 before the first step show that it works; their absence is a hang.
TEST_F(AgentCoreTest, AnAttemptThatHangsBeforeItsFirstStepEndsTooOnceNothingNewIsSaid) {
    protocol::StartOrder hangs = order(kKey);
    hangs.document = R"({"hang_first_step": "10s"})";
    exchange({.start = {hangs}});
    report(0, protocol::Ready{});
    const auto wait = [&](int times, const std::string& progress) {
        for (int second = 0; second < times; ++second) {
            keep();
            report(0, protocol::Progress{progress});
            pass(seconds(1));
        }
    };
    wait(9, R"({"bytes":1})");
    wait(9, R"({"bytes":2})");
    EXPECT_EQ(count<DumpStacks>(), 0);
    wait(3, R"({"bytes":2})");
    EXPECT_EQ(count<DumpStacks>(), 1);
    wait(6, R"({"bytes":2})");
    EXPECT_EQ(count<Kill>(), 1);
    gone();
    EXPECT_EQ(entry().exit_code, protocol::kExitHung);
}

TEST_F(AgentCoreTest, OtherNodesWaitForRankZerosFirstStepAndGiveTheirStacksWhenTheyMustStop) {
    protocol::StartOrder waits = order(kKey);
    waits.document = R"({"hang_first_step": "10s"})";
    waits.node_rank = 1;
    exchange({.start = {waits}});
    for (int second = 0; second < 30; ++second) {
        keep();
        pass(seconds(1));
    }
    EXPECT_EQ(count<DumpStacks>(), 0);
    exchange({.stop = {{kKey, "another node failed", false, 0}}});
    EXPECT_EQ(count<DumpStacks>(), 1);
}

TEST_F(AgentCoreTest, TheStepsOfAllRanksAreInTheProgress) {
    run();
    report(0, protocol::Progress{R"({"step":3})"});
    report(0, protocol::StepDone{3, 100, 20});
    report(1, protocol::StepDone{3, 100, 45});
    EXPECT_EQ(
        entry().progress,
        R"({"ranks":[{"own_ms":20,"rank":0,"step":3},{"own_ms":45,"rank":1,"step":3}],"step":3})");
}

TEST_F(AgentCoreTest, AnAttemptThatIsDoneSaysHowManyStepsWereSkipped) {
    run(1);
    report(0, protocol::Progress{R"({"step":300,"steps":300,"skipped_steps":2})"});
    report(0, protocol::Progress{R"({"phase":"export","step":300,"waited_s":9})"});
    exit(0, ExitStatus{0});
    gone();
    keep();
    EXPECT_EQ(entry().outcome, Outcome::Done);
    EXPECT_EQ(entry().reason, "2 of 300 steps were skipped");
}

TEST_F(AgentCoreTest, AFailedAttemptAlsoSaysHowManyStepsWereSkipped) {
    run(1);
    report(0, protocol::Progress{R"({"step":41,"steps":300,"skipped_steps":2})"});
    report(0, protocol::Failed{"the disk is full"});
    exit(0, ExitStatus{1});
    gone();
    keep();
    EXPECT_TRUE(entry().reason.ends_with("the disk is full; 2 of 41 steps were skipped"))
        << entry().reason;
}

TEST_F(AgentCoreTest, AStopGivesTheTimeThatSavingTakes) {
    run();
    exchange({.stop = {{kKey, "time", true, 40}}});
    for (int second = 0; second < 39; ++second) {
        exchange({.stop = {{kKey, "time", true, 40}}});
        pass(seconds(1));
    }
    EXPECT_EQ(count<Kill>(), 0);
    exchange({.stop = {{kKey, "time", true, 40}}});
    pass(seconds(2));
    EXPECT_EQ(count<Kill>(), 1);
}

}  // namespace
}  // namespace roll::agent
