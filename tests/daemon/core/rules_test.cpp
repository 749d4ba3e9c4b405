#include "tests/daemon/core/desk.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

bool is_queued(const Desk& desk, JobId id) { return desk.job(id).phase == JobPhase::Queued; }

TEST(Place, GivesSlotsAndGpusByIndex) {
    Desk desk;
    desk.join("n", 4, 2);
    const JobId first = desk.submit(wants(1, 2, 1));
    const JobId second = desk.submit(wants(1, 2, 1));
    EXPECT_EQ(desk.job(first).attempt->places[0].slots, (std::vector<int>{0, 1}));
    EXPECT_EQ(desk.job(second).attempt->places[0].slots, (std::vector<int>{2, 3}));
    EXPECT_EQ(desk.job(second).attempt->places[0].gpus, (std::vector<int>{1}));
    EXPECT_TRUE(is_queued(desk, desk.submit(wants(1, 1))));
}

TEST(Place, StartsGangsWholeOrNotAtAll) {
    Desk desk;
    desk.join("n", 2);
    const JobId gang = desk.submit(wants(2, 2));
    EXPECT_TRUE(is_queued(desk, gang));
    desk.join("m", 2);
    ASSERT_TRUE(is_running(desk, gang));
    EXPECT_NE(desk.worker_of(gang, 0), desk.worker_of(gang, 1));
}

TEST(Place, GoesByPriorityThenByNumber) {
    Desk desk;
    const JobId low = desk.submit(wants(1, 1));
    const JobId high = desk.submit(wants(1, 1));
    const JobId later = desk.submit(wants(1, 1));
    desk.tell(SetPriority{high, 5});
    desk.join("n", 2);
    EXPECT_TRUE(is_running(desk, high));
    EXPECT_TRUE(is_running(desk, low));
    EXPECT_TRUE(is_queued(desk, later));
}

TEST(Place, TheFirstThatMustWaitHoldsBackThoseBehindIt) {
    Desk desk;
    desk.join("n", 2);
    const JobId running = desk.submit(wants(1, 1));
    const JobId wide = desk.submit(wants(1, 2));
    const JobId narrow = desk.submit(wants(1, 1));
    EXPECT_TRUE(is_queued(desk, narrow));
    desk.exit(running, Outcome::Done);
    EXPECT_TRUE(is_running(desk, wide));
    EXPECT_TRUE(is_queued(desk, narrow));
}

TEST(Place, AJobThatNoLiveWorkerCanHoldBlocksNobody) {
    Desk desk;
    desk.join("n", 2);
    const JobId never = desk.submit(wants(1, 3));
    const JobId gpus = desk.submit(wants(1, 1, 1));
    EXPECT_TRUE(is_running(desk, desk.submit(wants(1, 1))));
    EXPECT_TRUE(is_queued(desk, never));
    EXPECT_TRUE(is_queued(desk, gpus));
}

TEST(Place, LeavesHeldJobsAndDrainingWorkersAlone) {
    Desk desk;
    desk.join("n", 2);
    desk.tell(Drain{"n", true});
    spec::JobSpec held = wants(1, 1);
    held.hold = true;
    const JobId first = desk.submit(held);
    const JobId second = desk.submit(wants(1, 1));
    EXPECT_TRUE(is_queued(desk, second));
    desk.tell(Drain{"n", false});
    EXPECT_TRUE(is_running(desk, second));
    EXPECT_TRUE(is_queued(desk, first));
    desk.tell(Hold{first, false});
    EXPECT_TRUE(is_running(desk, first));
}

TEST(Place, KeepsAGangsSlotsUntilAllOfItHasEnded) {
    Desk desk;
    desk.join("n", 1);
    desk.join("m", 1);
    const JobId gang = desk.submit(wants(2, 1));
    const JobId next = desk.submit(wants(1, 1));
    desk.tell(MemberExited{desk.worker_of(gang), desk.attempt(gang), Outcome::Done, 0, ""});
    EXPECT_TRUE(is_queued(desk, next));
    desk.tell(MemberExited{desk.worker_of(gang, 1), desk.attempt(gang), Outcome::Done, 0, ""});
    EXPECT_TRUE(is_running(desk, next));
}

TEST(Cancel, EndsAQueuedJobAtOnce) {
    Desk desk;
    const JobId id = desk.submit(wants(1, 1));
    desk.tell(Cancel{id, "not needed"});
    EXPECT_EQ(desk.job(id).phase, JobPhase::Cancelled);
    EXPECT_EQ(desk.job(id).reason, "not needed");
}

TEST(Cancel, StopsEveryMemberFirst) {
    Desk desk;
    desk.join("n", 1);
    desk.join("m", 1);
    const JobId id = desk.submit(wants(2, 1));
    const AttemptKey key = desk.attempt(id);
    desk.tell(Cancel{id, "not needed"});
    EXPECT_TRUE(is_running(desk, id));
    EXPECT_EQ(actions(desk.state), (std::vector<Action>{StopMember{desk.worker_of(id, 0), key},
                                                        StopMember{desk.worker_of(id, 1), key}}));
    desk.exit(id, Outcome::Stopped, 143);
    EXPECT_EQ(desk.job(id).phase, JobPhase::Cancelled);
    EXPECT_TRUE(actions(desk.state).empty());
}

TEST(Retry, OfTheWorldsFaultsEndsWhenItsNumberIsUsedUp) {
    Desk desk;
    desk.join("n", 1);
    spec::JobSpec spec = wants(1, 1);
    spec.retry = {.infra = 2, .app = 0};
    const JobId id = desk.submit(spec);
    for (int i = 0; i < 2; ++i) {
        desk.exit(id, Outcome::Infra, 137, "killed");
        EXPECT_TRUE(is_queued(desk, id));
        desk.pass(1min);
    }
    desk.exit(id, Outcome::Infra, 137, "killed");
    EXPECT_EQ(desk.job(id).phase, JobPhase::Failed);
    EXPECT_EQ(desk.job(id).exit_code, 137);
    EXPECT_EQ(desk.job(id).reason, "killed; retry.infra: 2 is used up");
}

TEST(Retry, WaitsTwiceAsLongEachTime) {
    Desk desk;
    desk.join("n", 1);
    const JobId id = desk.submit(wants(1, 1));
    std::chrono::milliseconds last = 0s;
    for (int i = 0; i < 4; ++i) {
        desk.exit(id, Outcome::Infra);
        const auto wakeup = next_wakeup(desk.state, desk.now);
        ASSERT_TRUE(wakeup);
        const auto wait = *wakeup - desk.now;
        EXPECT_EQ(wait, i == 0 ? wait : 2 * last);
        last = wait;
        desk.pass(wait - 1ms);
        EXPECT_TRUE(is_queued(desk, id));
        desk.pass(1ms);
        EXPECT_TRUE(is_running(desk, id));
    }
}

TEST(Retry, OfTheProgramsOwnFailuresIsCountedApart) {
    Desk desk;
    desk.join("n", 1);
    spec::JobSpec spec = wants(1, 1);
    spec.retry = {.infra = 1, .app = 1};
    const JobId id = desk.submit(spec);
    desk.exit(id, Outcome::App, 1, "boom");
    desk.pass(1min);
    desk.exit(id, Outcome::Infra, 1, "lost");
    desk.pass(1min);
    desk.exit(id, Outcome::App, 3, "boom again");
    EXPECT_EQ(desk.job(id).phase, JobPhase::Failed);
    EXPECT_EQ(desk.job(id).exit_code, 3);
    EXPECT_EQ(desk.job(id).reason, "boom again; retry.app: 1 is used up");
}

TEST(Retry, NeverFollowsAnInvalidInput) {
    Desk desk;
    desk.join("n", 1);
    const JobId id = desk.submit(wants(1, 1));
    desk.exit(id, Outcome::Invalid, 2, "no such file: corpus.txt");
    EXPECT_EQ(desk.job(id).phase, JobPhase::Failed);
    EXPECT_EQ(desk.job(id).exit_code, 2);
}

TEST(Retry, AfterAYieldIsFreeAndAtOnce) {
    Desk desk;
    desk.join("n", 1);
    spec::JobSpec spec = wants(1, 1);
    spec.retry = {.infra = 0, .app = 0};
    const JobId id = desk.submit(spec);
    for (int i = 0; i < 20; ++i) desk.exit(id, Outcome::Yielded, 75);
    EXPECT_TRUE(is_running(desk, id));
    EXPECT_EQ(desk.job(id).attempts, 21u);
}

TEST(Gang, IsJudgedByTheMemberThatFailedByItself) {
    Desk desk;
    for (const char* node : {"a", "b", "c"}) desk.join(node, 1);
    spec::JobSpec spec = wants(3, 1);
    spec.retry.app = 0;
    const JobId id = desk.submit(spec);
    const AttemptKey key = desk.attempt(id);
    desk.tell(MemberExited{desk.worker_of(id, 0), key, Outcome::Infra, 76, "a peer was lost"});
    EXPECT_EQ(desk.job(id).attempt->phase, AttemptPhase::Stopping);
    desk.tell(MemberExited{desk.worker_of(id, 1), key, Outcome::App, 9, "loss is not a number"});
    desk.tell(MemberExited{desk.worker_of(id, 2), key, Outcome::Stopped, 143, "stopped"});
    EXPECT_EQ(desk.job(id).phase, JobPhase::Failed);
    EXPECT_EQ(desk.job(id).exit_code, 9);
    EXPECT_EQ(desk.job(id).reason, "loss is not a number");
}

TEST(Gang, KeepsWhatADoneMemberSaysUnlessTheAttemptIsStopped) {
    for (const bool cancelled : {false, true}) {
        Desk desk;
        desk.join("a", 1);
        desk.join("b", 1);
        const JobId id = desk.submit(wants(2, 1));
        const AttemptKey key = desk.attempt(id);
        const WorkerId last = desk.worker_of(id, 1);
        desk.tell(MemberExited{desk.worker_of(id, 0), key, Outcome::Done, 0,
                               "2 of 9 steps were skipped"});
        if (cancelled) desk.tell(Cancel{id, "enough"});
        desk.tell(MemberExited{last, key, cancelled ? Outcome::Stopped : Outcome::Done, 0, ""});
        EXPECT_EQ(desk.job(id).past.at(0).reason,
                  cancelled ? "cancelled: enough" : "2 of 9 steps were skipped");
    }
}

TEST(Gang, ForgetsWhatADoneMemberSaysIfAnotherFails) {
    Desk desk;
    desk.join("a", 1);
    desk.join("b", 1);
    const JobId id = desk.submit(wants(2, 1));
    const AttemptKey key = desk.attempt(id);
    const WorkerId last = desk.worker_of(id, 1);
    desk.tell(
        MemberExited{desk.worker_of(id, 0), key, Outcome::Done, 0, "2 of 9 steps were skipped"});
    desk.tell(MemberExited{last, key, Outcome::Stopped, 0, "the lease has ended"});
    EXPECT_EQ(desk.job(id).past.at(0).reason, "the lease has ended");
}

TEST(Gang, ThatLostAWorkerStopsTheOthersAndTriesAgain) {
    Desk desk;
    desk.join("a", 1);
    desk.join("b", 1);
    const JobId id = desk.submit(wants(2, 1));
    const WorkerId lost = desk.worker_of(id, 0);
    const WorkerId left = desk.worker_of(id, 1);
    desk.tell(WorkerGone{lost, "silent"});
    EXPECT_EQ(actions(desk.state), (std::vector<Action>{StopMember{left, desk.attempt(id)}}));
    desk.tell(MemberExited{left, desk.attempt(id), Outcome::Stopped, 143, ""});
    EXPECT_TRUE(is_queued(desk, id));
    EXPECT_EQ(desk.job(id).infra_failures, 1);
}

TEST(TimeLimit, StopsTheAttemptAndFailsTheJob) {
    Desk desk;
    desk.join("n", 1);
    spec::JobSpec spec = wants(1, 1);
    spec.resources.time = 60s;
    const JobId id = desk.submit(spec);
    desk.pass(10s);
    desk.tell(MemberStarted{desk.worker_of(id), desk.attempt(id)});
    EXPECT_EQ(next_wakeup(desk.state, desk.now), desk.now + 60s);
    desk.pass(59s);
    EXPECT_EQ(desk.job(id).attempt->phase, AttemptPhase::Running);
    desk.pass(1s);
    EXPECT_EQ(desk.job(id).attempt->phase, AttemptPhase::Stopping);
    desk.exit(id, Outcome::Yielded, 75, "saved step 40");
    EXPECT_EQ(desk.job(id).phase, JobPhase::Failed);
    EXPECT_EQ(desk.job(id).reason, "reached its time limit");
}

JobId submit_after(Desk& desk, JobId job, spec::After::Condition condition) {
    spec::JobSpec spec = wants(1, 1);
    spec.after = {{condition, job}};
    return desk.submit(spec);
}

TEST(After, StartsOrCancelsByHowTheOtherEnded) {
    using enum spec::After::Condition;
    for (const Outcome outcome : {Outcome::Done, Outcome::Invalid}) {
        Desk desk;
        desk.join("n", 4);
        const JobId first = desk.submit(wants(1, 1));
        const JobId ok = submit_after(desk, first, Ok);
        const JobId any = submit_after(desk, first, Any);
        const JobId failed = submit_after(desk, first, Failed);
        const JobId chain = submit_after(desk, failed, Ok);
        for (const JobId id : {ok, any, failed, chain}) EXPECT_TRUE(is_queued(desk, id));
        desk.exit(first, outcome);
        const bool done = outcome == Outcome::Done;
        EXPECT_TRUE(is_running(desk, any));
        EXPECT_EQ(desk.job(ok).phase, done ? JobPhase::Running : JobPhase::Cancelled);
        EXPECT_EQ(desk.job(failed).phase, done ? JobPhase::Cancelled : JobPhase::Running);
        EXPECT_EQ(desk.job(chain).phase, done ? JobPhase::Cancelled : JobPhase::Queued);
        EXPECT_FALSE(desk.job(done ? failed : ok).reason.empty());
    }
}

TEST(Export, FollowsAJobThatEndedWell) {
    Desk desk;
    desk.join("n", 1);
    spec::JobSpec spec = wants(1, 1);
    spec.export_document = R"({"convert":{}})";
    const JobId id = desk.submit(spec);
    desk.exit(id, Outcome::Done);
    ASSERT_TRUE(desk.job(id).export_job);
    const JobId follows = *desk.job(id).export_job;
    EXPECT_EQ(desk.job(follows).spec.kind, spec::JobKind::Convert);
    EXPECT_EQ(desk.job(follows).spec.source_job, id);
    EXPECT_EQ(desk.job(follows).user, "ann");
    EXPECT_TRUE(is_running(desk, follows));
    desk.tell(ExportWritten{desk.worker_of(follows), desk.attempt(follows), "/runs/x-1/export/hf"});
    desk.exit(follows, Outcome::Done);
    EXPECT_EQ(desk.job(follows).exported, "/runs/x-1/export/hf");
    EXPECT_EQ(desk.state.jobs.size(), 2u);
}

TEST(Export, OfACheckpointIsListedUntilTheTrainingDeletesIt) {
    Desk desk;
    desk.join("n", 1);
    const JobId id = desk.submit(wants(1, 1));
    const auto tell = [&](std::int64_t step, std::int64_t oldest) {
        desk.tell(ExportWritten{desk.worker_of(id), desk.attempt(id), "/e/" + std::to_string(step),
                                step, oldest});
    };
    tell(10, 10);
    tell(20, 10);
    tell(10, 10);  // a later attempt reports its exports again
    using Exports = std::vector<CheckpointExport>;
    EXPECT_EQ(desk.job(id).exports, (Exports{{10, "/e/10"}, {20, "/e/20"}}));
    EXPECT_EQ(desk.job(id).exported, "");  // no model of the whole job
    tell(30, 20);
    EXPECT_EQ(desk.job(id).exports, (Exports{{20, "/e/20"}, {30, "/e/30"}}));
}

TEST(Export, DoesNotFollowAJobThatFailed) {
    Desk desk;
    desk.join("n", 1);
    spec::JobSpec spec = wants(1, 1);
    spec.export_document = R"({"convert":{}})";
    const JobId id = desk.submit(spec);
    desk.exit(id, Outcome::Invalid, 2);
    EXPECT_EQ(desk.state.jobs.size(), 1u);
}

}  // namespace
}  // namespace roll::core
