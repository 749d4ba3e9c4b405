#include "tests/worker/agent/core/agent_core_fixture.hpp"

namespace roll::agent {
namespace {

TEST_F(AgentCoreTest, EndsAnAttemptThatIsStoppedBeforeItsStartCame) {
    exchange({.stop = {{kKey, "cancelled", false}}});
    beat();
    ASSERT_EQ(last_.running.size(), 1u);
    EXPECT_EQ(last_.running.front().phase, Phase::Ended);
    EXPECT_EQ(last_.running.front().outcome, Outcome::Stopped);
    effects_.clear();
    exchange({.start = {order(kKey)}});
    EXPECT_EQ(count<Start>(), 0) << "a start that comes late starts nothing";
}

TEST_F(AgentCoreTest, StartsOnceHoweverOftenItIsTold) {
    exchange({.start = {order(kKey)}});
    deliver({.sequence = last_.sequence, .start = {order(kKey)}});
    exchange({.start = {order(kKey)}});
    EXPECT_EQ(count<Start>(), 1);
    EXPECT_EQ(entry().phase, Phase::Starting);
    report(0, protocol::Ready{});
    EXPECT_EQ(entry().phase, Phase::Starting);
    report(1, protocol::Ready{});
    EXPECT_EQ(entry().phase, Phase::Running);
}

TEST_F(AgentCoreTest, AnOrderThatMustNotStartEndsAtOnce) {
    protocol::StartOrder refused = order(kKey, 2, "train");
    refused.refused = "bob has no secret TOKEN any more";
    exchange({.start = {refused}});
    EXPECT_EQ(count<Start>(), 0);
    EXPECT_EQ(entry().outcome, Outcome::Infra);
    EXPECT_EQ(entry().reason, refused.refused);
}

TEST_F(AgentCoreTest, AnOrderThatMustNotStartDoesNotEndWhatHasStarted) {
    run();
    protocol::StartOrder refused = order(kKey, 2, "train");
    refused.refused = "bob has no secret TOKEN any more";
    exchange({.start = {refused}});
    EXPECT_EQ(entry().phase, Phase::Running);
}

TEST_F(AgentCoreTest, NeverStartsATokenAgainAfterItEnded) {
    run();
    exit(0, {});
    exit(1, {});
    gone();
    EXPECT_EQ(entry().outcome, Outcome::Done);
    exchange({});
    EXPECT_EQ(count<Forget>(), 1);
    exchange({.start = {order(kKey)}});  // a restored ledger does not know the end
    EXPECT_EQ(count<Start>(), 0);
    EXPECT_EQ(entry().phase, Phase::Ended) << "else rolld would wait for its start for ever";
    EXPECT_EQ(entry().outcome, Outcome::Infra);
    exchange({});
    EXPECT_FALSE(lists());
}

TEST_F(AgentCoreTest, SaysAnEndUntilAnAnswerThatKnewItNoLongerNamesTheAttempt) {
    run();
    beat();
    const std::uint64_t before = last_.sequence;
    exit(0, {});
    exit(1, {});
    gone();
    EXPECT_EQ(entry().phase, Phase::Ended);
    deliver({.sequence = before});  // rolld computed this answer before it knew of the end
    EXPECT_EQ(entry().phase, Phase::Ended);
    keep();
    EXPECT_EQ(entry().phase, Phase::Ended);
    exchange({});
    EXPECT_FALSE(lists());
    EXPECT_TRUE(core_.settled(now_));
}

TEST_F(AgentCoreTest, AStartThatWasHeldUpIsNotCarriedOut) {
    beat();
    const std::uint64_t sequence = last_.sequence;
    now_ += seconds(15);
    deliver({.sequence = sequence, .start = {order(kKey)}});
    EXPECT_EQ(count<Start>(), 0);
    exchange({.counted = 15, .start = {order(kKey)}});
    EXPECT_EQ(count<Start>(), 0);
    exchange({.counted = 14, .start = {order(kKey)}});
    EXPECT_EQ(count<Start>(), 1);
}

TEST_F(AgentCoreTest, AnOlderRolldIsNotObeyed) {
    exchange({.incarnation = 2});
    exchange({.incarnation = 1, .start = {order(kKey)}});
    EXPECT_EQ(count<Start>(), 0);
    look(3, 0);
    exchange({.incarnation = 2, .start = {order(kKey)}});
    EXPECT_EQ(count<Start>(), 0);
    exchange({.incarnation = 3, .start = {order(kKey)}});
    EXPECT_EQ(count<Start>(), 1);
}

TEST_F(AgentCoreTest, ANewerRolldIsObeyedOnceTheBeaconShowsIt) {
    run();
    keep();
    look(2, 0);
    deliver({.incarnation = 2, .sequence = last_.sequence - 1, .fenced = {kKey}});
    EXPECT_EQ(count<Kill>(), 1);
}

TEST_F(AgentCoreTest, ANewerRolldAdoptsWhatRuns) {
    run();
    now_ += seconds(10);
    counter_ = 0;
    exchange({.incarnation = 2, .keep = {kKey}});
    pass(seconds(10));
    EXPECT_EQ(entry().phase, Phase::Running);
    EXPECT_EQ(count<Terminate>(), 0);
    EXPECT_TRUE(last_.bound_below_lease);
}

TEST_F(AgentCoreTest, AFencedAttemptIsKilledAndPublishesNothing) {
    run();
    exchange({.fenced = {kKey}});
    EXPECT_EQ(count<Kill>(), 1);
    report(0, protocol::CheckpointStaged{10, "/out/checkpoints/.step-00000010.1-1"});
    EXPECT_EQ(count<Publish>(), 0);
    exit(0, {true, 9});
    exit(1, {true, 9});
    gone();
    EXPECT_EQ(entry().outcome, Outcome::Stopped);
    exchange({.fenced = {kKey}});
    EXPECT_TRUE(core_.settled(now_));
}

TEST_F(AgentCoreTest, ALaterAttemptOfTheJobWaitsForTheEarlierOneToBeGone) {
    run();
    exchange({.start = {order(kNext)}});
    EXPECT_EQ(count<Kill>(), 1);
    EXPECT_EQ(count<Start>(), 0);
    exit(0, {true, 9});
    exit(1, {true, 9});
    gone();
    exchange({.start = {order(kNext)}});
    EXPECT_EQ(count<Start>(), 1);
}

TEST_F(AgentCoreTest, LostAnswersCostNothingUntilTheLease) {
    run();
    pass(seconds(14));
    EXPECT_EQ(count<Terminate>(), 0);
    keep();
    pass(seconds(14));
    EXPECT_EQ(count<Terminate>(), 0);
    EXPECT_EQ(entry().phase, Phase::Running);
}

TEST_F(AgentCoreTest, AtTheLeaseItStopsWithACheckpointAndAtTheFenceItKills) {
    run();
    pass(seconds(15));
    EXPECT_EQ(count<Terminate>(), 1);
    EXPECT_TRUE(std::get<protocol::StopAtStep>(first<Tell>().command).checkpoint);
    EXPECT_FALSE((entry(), last_.bound_below_lease));
    EXPECT_EQ(entry().phase, Phase::Stopping);
    pass(seconds(14));
    EXPECT_EQ(count<Kill>(), 0);
    pass(seconds(1));
    EXPECT_EQ(count<Kill>(), 1);
    exit(0, {true, 9});
    exit(1, {true, 9});
    gone();
    EXPECT_EQ(entry().outcome, Outcome::Infra);
}

TEST_F(AgentCoreTest, AnswersThatDoNotNameItRenewNothing) {
    run();
    for (int i = 0; i < 15; ++i) {
        pass(seconds(1));
        exchange({});
    }
    EXPECT_EQ(count<Terminate>(), 1);
}

TEST_F(AgentCoreTest, RolldMayBeAwayForHoursWhileTheBeaconStandsStill) {
    run();
    const Instant began = now_;
    while (now_ < began + hours(5)) {
        pass(seconds(1));
        if (!core_.look_due(now_).empty()) look(1, 51);
        beat();
        ASSERT_TRUE(last_.bound_below_lease);
        ASSERT_EQ(last_.heard_recently, now_ - began <= seconds(2));
    }
    EXPECT_EQ(count<Terminate>(), 0);
    report(0, protocol::CheckpointStaged{10, "/out/checkpoints/.step-00000010.1-1"});
    EXPECT_EQ(count<Publish>(), 1);
    core_.on_published(kKey, 10, {}, now_);
    counter_ = 0;
    exchange({.incarnation = 2, .keep = {kKey}, .recorded = {{kKey, {10}, false}}});
    EXPECT_TRUE(entry().checkpoints.empty());
    EXPECT_EQ(entry().phase, Phase::Running);
}

TEST_F(AgentCoreTest, ABeaconThatGrowsWithoutAnswersEndsIt) {
    run();
    for (std::uint64_t i = 1; i <= 30 && count<Kill>() == 0; ++i) {
        pass(seconds(1));
        look(1, 50 + i);
    }
    EXPECT_EQ(count<Terminate>(), 1);
    EXPECT_EQ(now_, seconds(1000 + 30));
}

TEST_F(AgentCoreTest, UnaskedAnswersOfARolldThatHearsNothingRenewNothing) {
    run();
    keep();
    const std::uint64_t echoed = last_.sequence;
    for (int i = 0; i < 15; ++i) {
        pass(seconds(1));
        beat();      // this heartbeat is lost on its way
        ++counter_;  // but rolld keeps counting ticks
        look(1, counter_);
        deliver({.sequence = echoed, .keep = {kKey}});
    }
    EXPECT_EQ(count<Terminate>(), 1);
}

TEST_F(AgentCoreTest, ABeaconThatGoesBackIsNotBelieved) {
    run();
    look(1, 52);
    look(1, 51);
    for (int i = 0; i < 15; ++i) {
        pass(seconds(1));
        look(1, 52);
    }
    EXPECT_EQ(count<Terminate>(), 1);
}

TEST_F(AgentCoreTest, ALookFromBeforeAnAnsweredHeartbeatIsNoReasonToDistrustTheBeacon) {
    run();
    const Instant before = now_;
    now_ += seconds(10);  // roll-worker stands still; then it reads messages in any order
    counter_ += 10;
    keep();
    core_.on_look({1, 51, before, before}, now_);
    for (int i = 0; i < 20; ++i) {  // rolld has ended
        pass(seconds(1));
        look(1, 60);
    }
    EXPECT_EQ(count<Terminate>(), 0);
}

// The machine is paused, and its last heartbeat arrives late. The answer's counter is higher than
// this clock explains, and the beacon seems old. The next ticks of the beacon are still counted.
TEST_F(AgentCoreTest, ABeaconThatIsNotBelievedStillShowsThatTheClockStoodStill) {
    run();
    counter_ = 63;
    keep();
    look(1, 50);
    pass(seconds(1));
    look(1, 93);
    pass(seconds(0));
    EXPECT_EQ(count<Kill>(), 1);
}

TEST_F(AgentCoreTest, LooksOftenOnlyWhenRolldIsNotHeard) {
    EXPECT_TRUE(core_.look_due(now_).empty());
    run();
    EXPECT_EQ(core_.look_due(now_), "/beacon");
    pass(seconds(3));
    EXPECT_TRUE(core_.look_due(now_).empty());
    pass(seconds(2));
    EXPECT_EQ(core_.look_due(now_), "/beacon");
    pass(seconds(1));
    EXPECT_EQ(core_.look_due(now_), "/beacon");
}

TEST_F(AgentCoreTest, AnOrphanStopsAfterItsTime) {
    LeaseRules rules;
    rules.orphan_after = hours(1);
    core_ = AgentCore{protocol::Heartbeat{}, rules, StopRules{}};
    run();
    while (now_ < seconds(1000) + hours(1) - seconds(5)) {
        pass(seconds(5));
        look(1, 50);
    }
    EXPECT_EQ(count<Terminate>(), 0);
    pass(seconds(5));
    EXPECT_EQ(count<Terminate>(), 1);
}

TEST_F(AgentCoreTest, PublishesOnlyBelowTheLeaseAndSaysSoUntilRecorded) {
    run();
    report(0, protocol::CheckpointStaged{10, "/out/checkpoints/.step-00000010.1-1"});
    ASSERT_EQ(count<Publish>(), 1);
    EXPECT_EQ(first<Publish>().to, "/out/checkpoints/step-00000010.1-1");
    EXPECT_EQ(first<Publish>().before, seconds(1015));
    core_.on_published(kKey, 10, {}, now_);
    ASSERT_EQ(entry().checkpoints.size(), 1u);
    keep();
    EXPECT_EQ(entry().checkpoints.at(0).directory, "/out/checkpoints/step-00000010.1-1");
    exchange({.keep = {kKey}, .recorded = {{kKey, {10}, false}}});
    exchange({.keep = {kKey}, .recorded = {{kKey, {10}, false}}});
    EXPECT_TRUE(entry().checkpoints.empty());
    EXPECT_EQ(count<Tell>(), 1);
    EXPECT_EQ(std::get<protocol::RecordedStep>(first<Tell>().command).step, 10);
}

TEST_F(AgentCoreTest, ACheckpointStagedPastTheLeaseWaitsForContact) {
    run(1);
    pass(seconds(16));
    report(0, protocol::CheckpointStaged{10, "/out/checkpoints/.step-00000010.1-1"});
    exit(0, {false, 75});
    gone();
    EXPECT_EQ(count<Publish>(), 0);
    EXPECT_EQ(entry().phase, Phase::Stopping);
    keep();
    EXPECT_EQ(count<Publish>(), 1);
    core_.on_published(kKey, 10, {}, now_);
    EXPECT_EQ(entry().phase, Phase::Ended);
    EXPECT_EQ(last_.running.at(0).outcome, Outcome::Yielded);
    EXPECT_EQ(last_.running.at(0).checkpoints.size(), 1u);
}

TEST_F(AgentCoreTest, ACheckpointThatNobodyWaitsForIsNotPublished) {
    run(1);
    pass(seconds(16));
    report(0, protocol::CheckpointStaged{10, "/out/checkpoints/.step-00000010.1-1"});
    exit(0, {false, 75});
    gone();
    exchange({});
    EXPECT_EQ(count<Publish>(), 0);
    EXPECT_EQ(entry().phase, Phase::Ended);
}

TEST_F(AgentCoreTest, AnEndWaitsForTheRenameUnderWay) {
    run(1);
    report(0, protocol::CheckpointStaged{10, "/out/checkpoints/.step-00000010.1-1"});
    exit(0, {});
    gone();
    EXPECT_EQ(entry().phase, Phase::Stopping);
    core_.on_published(kKey, 10, {}, now_);
    EXPECT_EQ(entry().phase, Phase::Ended);
    EXPECT_EQ(entry().checkpoints.size(), 1u);
}

TEST_F(AgentCoreTest, OneFailedRankEndsTheGangAndGivesTheReason) {
    run();
    report(1, protocol::Failed{"loss is not a number"});
    exit(1, {false, 1});
    EXPECT_EQ(count<Kill>(), 1);
    exit(0, {true, 9});
    gone();
    EXPECT_EQ(entry().outcome, Outcome::App);
    EXPECT_EQ(entry().exit_code, 1);
    EXPECT_EQ(entry().reason, "loss is not a number");
}

TEST_F(AgentCoreTest, ALostPeerLeavesTheCulpritTimeToSpeak) {
    run();
    exit(0, {false, 76});
    EXPECT_EQ(count<Kill>(), 0);
    exit(1, {true, 11});
    EXPECT_EQ(count<Kill>(), 1);
    gone();
    EXPECT_EQ(entry().outcome, Outcome::Infra);
    EXPECT_EQ(entry().exit_code, 139);
    EXPECT_EQ(entry().reason, "rank 1 was killed by signal 11 (Segmentation fault)");
}

TEST_F(AgentCoreTest, ARankThatHangsAfterALostPeerIsKilled) {
    run();
    exit(0, {false, 76});
    pass(seconds(5));
    EXPECT_EQ(count<Kill>(), 1);
    exit(1, {true, 9});
    gone();
    EXPECT_EQ(entry().outcome, Outcome::Infra);
    EXPECT_EQ(entry().exit_code, 76);
}

TEST_F(AgentCoreTest, AStopIsAskedOnceAndEnforcedAfterItsGrace) {
    run(1, "command");
    exchange({.stop = {{kKey, "cancelled", false}}});
    exchange({.stop = {{kKey, "cancelled", false}}});
    EXPECT_EQ(count<Terminate>(), 1);
    for (int i = 0; i < 29; ++i) {
        pass(seconds(1));
        exchange({.stop = {{kKey, "cancelled", false}}});
    }
    EXPECT_EQ(count<Kill>(), 0);
    pass(seconds(1));
    EXPECT_EQ(count<Kill>(), 1);
    exit(0, {true, 9});
    gone();
    EXPECT_EQ(entry().outcome, Outcome::Stopped);
    EXPECT_EQ(entry().reason, "cancelled");
}

TEST_F(AgentCoreTest, AStopWithACheckpointMayBecomeAPlainOne) {
    run();
    exchange({.stop = {{kKey, "preempted", true}}});
    exchange({.stop = {{kKey, "cancelled", false}}});
    exchange({.stop = {{kKey, "preempted", true}}});
    EXPECT_EQ(count<Tell>(), 2);
    pass(seconds(30));
    EXPECT_EQ(count<Kill>(), 1);
}

TEST_F(AgentCoreTest, ADisownedAttemptDoesNotCostTheOthersTheirContact) {
    run();
    exchange({.fenced = {kKey}});
    pass(seconds(20));
    EXPECT_TRUE((beat(), last_.bound_below_lease));
}

TEST_F(AgentCoreTest, LeavesOnceRolldKnowsOrIsNotHeard) {
    EXPECT_TRUE(core_.settled(now_));
    exchange({});
    core_.on_drain(now_);
    EXPECT_FALSE(core_.settled(now_));
    deliver({.sequence = last_.sequence});  // an answer to a heartbeat from before the drain
    EXPECT_FALSE(core_.settled(now_));
    beat();
    EXPECT_TRUE(last_.draining);
    EXPECT_FALSE(core_.settled(now_));
    deliver({.sequence = last_.sequence});
    EXPECT_TRUE(core_.settled(now_));
}

TEST_F(AgentCoreTest, LeavesWithoutRolldThatIsGone) {
    exchange({});
    core_.on_drain(now_);
    beat();
    pass(seconds(3));
    EXPECT_TRUE(core_.settled(now_));
}

TEST_F(AgentCoreTest, ALeftoverIsReportedEndedAndNeverStarted) {
    protocol::RunningAttempt left{.attempt = kKey, .phase = Phase::Running, .reason = ""};
    left.checkpoints = {{.step = 5, .directory = "/out/checkpoints/step-5"}};
    left.answers = {{.number = 1, .step = 4, .stop_step = 6, .text = "ends after step 6"}};
    core_.add_leftover(left);
    EXPECT_EQ(entry().outcome, Outcome::Infra);
    EXPECT_EQ(entry().checkpoints.size() + entry().answers.size(), 2u);
    exchange({.start = {order(kKey)}});
    EXPECT_EQ(count<Start>(), 0);
    exchange({});
    EXPECT_TRUE(core_.settled(now_));
    exchange({.start = {order(kKey)}});
    EXPECT_EQ(count<Start>(), 0) << "nor once its end was taken note of";
    exchange({});
    left.phase = Phase::Ended;  // an attempt that had ended keeps its outcome
    left.outcome = Outcome::Done;
    core_.add_leftover(left);
    EXPECT_EQ(entry().outcome, Outcome::Done);
}

TEST_F(AgentCoreTest, ADeletedCheckpointIsSaidUntilAnswered) {
    run();
    report(0, protocol::CheckpointPruned{10, {1, 1}});
    EXPECT_TRUE(entry().checkpoints.at(0).deleted);
    deliver({.sequence = last_.sequence, .keep = {kKey}});
    EXPECT_TRUE(entry().checkpoints.empty());
}

TEST_F(AgentCoreTest, AFailedStartIsAnEndWithItsOwnReason) {
    exchange({.start = {order(kKey)}});
    core_.on_start_failed(kKey,
                          {Outcome::Invalid, 127, "cannot run nosuch: No such file or directory"});
    gone();
    EXPECT_EQ(entry().outcome, Outcome::Invalid);
    EXPECT_EQ(entry().exit_code, 127);
}

TEST_F(AgentCoreTest, TheGuardsLeashEndsItAsInfra) {
    run();
    core_.on_leash(kKey, now_);
    exit(0, {true, 9});
    exit(1, {true, 9});
    gone();
    EXPECT_EQ(entry().outcome, Outcome::Infra);
}

}  // namespace
}  // namespace roll::agent
