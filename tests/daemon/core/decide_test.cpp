#include "tests/daemon/core/desk.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

TEST(Submit, GivesNumbersInOrderAndResolvesTheOutput) {
    Desk desk;
    EXPECT_EQ(desk.submit(wants(1, 1)), JobId{1});
    EXPECT_EQ(desk.submit(wants(1, 1)), JobId{2});
    EXPECT_EQ(desk.job(JobId{2}).spec.output, "/runs/x-2");
}

TEST(Submit, SaidTwiceQueuesOneJob) {
    Desk desk;
    const JobId id = desk.submit(wants(1, 1));
    Submit again{"key-1", "ann", wants(1, 1)};
    again.spec.output = "/runs/x-{id}";
    EXPECT_TRUE(desk.tell(again).empty());
    desk.tell(SetPriority{id, 7});
    EXPECT_TRUE(desk.tell(again).empty()) << "a changed priority makes it no other job";
    EXPECT_EQ(desk.state.keys.at("ann").at("key-1"), id);
    EXPECT_EQ(desk.state.jobs.size(), 1u);
}

TEST(Submit, RefusesAKeyThatNamesAnotherJob) {
    Desk desk;
    desk.submit(wants(1, 1));
    const Error error = desk.refusal(Submit{"key-1", "ann", wants(2, 1)});
    EXPECT_EQ(error.code, ErrorCode::Refused);
    EXPECT_NE(error.message.find("key-1"), std::string::npos);
}

TEST(Submit, AKeyIsItsUsersOwn) {
    Desk desk;
    const JobId anns = desk.submit(wants(1, 1));
    desk.tell(Submit{"key-1", "bob", wants(2, 1)});
    EXPECT_EQ(desk.state.keys.at("ann").at("key-1"), anns);
    EXPECT_EQ(desk.state.keys.at("bob").at("key-1"), JobId{anns.value + 1});
}

TEST(Submit, RefusesWhatItDependsOnWhenThereIsNoSuchJob) {
    Desk desk;
    spec::JobSpec after = wants(1, 1);
    after.after = {{spec::After::Condition::Ok, JobId{9}}};
    EXPECT_EQ(desk.refusal(Submit{"k", "ann", after}).code, ErrorCode::NotFound);
    spec::JobSpec resume = wants(1, 1);
    resume.source_job = JobId{9};
    EXPECT_EQ(desk.refusal(Submit{"k", "ann", resume}).code, ErrorCode::NotFound);
}

TEST(Submit, RefusesToResumeAJobThatHasNoCheckpoint) {
    Desk desk;
    const WorkerId worker = desk.join("n", 1);
    spec::JobSpec train = wants(1, 1);
    train.kind = spec::JobKind::Train;
    const JobId empty = desk.submit(train);
    spec::JobSpec resume = wants(1, 1);
    resume.kind = spec::JobKind::Resume;
    resume.source_job = empty;
    resume.output = "/runs/x-{id}";
    EXPECT_EQ(desk.refusal(Submit{"k", "ann", resume}).message,
              "job 1 has no checkpoint yet, so it cannot be resumed now");
    resume.after = {{spec::After::Condition::Any, empty}};
    EXPECT_TRUE(decide(desk.state, Submit{"k", "ann", resume}, desk.now))
        << "until it has ended, it may still save a checkpoint";
    resume.after.clear();
    desk.exit(empty, Outcome::Invalid, 2);
    const Error error = desk.refusal(Submit{"k", "ann", resume});
    EXPECT_EQ(error.code, ErrorCode::Refused);
    EXPECT_EQ(error.message, "job 1 has ended without a checkpoint, so it cannot be resumed");
    EXPECT_EQ(error.hint,
              "rollctl resubmit 1 trains from the start; rollctl show 1 says how the job "
              "ended");
    const JobId saved = desk.submit(train);
    desk.tell(CheckpointWritten{worker, desk.attempt(saved), 5, "/c"});
    desk.exit(saved, Outcome::Invalid, 2);
    ASSERT_EQ(desk.job(saved).phase, JobPhase::Failed);
    resume.source_job = saved;
    EXPECT_TRUE(decide(desk.state, Submit{"k", "ann", resume}, desk.now));
}

TEST(Submit, RefusesSizesThatCannotBe) {
    Desk desk;
    for (const auto& spec : {wants(0, 1), wants(1, -1), wants(1, 0), wants(1, 1, -1)})
        EXPECT_EQ(desk.refusal(Submit{"k", "ann", spec}).code, ErrorCode::InvalidArgument);
}

TEST(Commands, NameAJobThatIsNotThere) {
    Desk desk;
    EXPECT_EQ(desk.refusal(Cancel{JobId{3}, ""}).code, ErrorCode::NotFound);
    EXPECT_EQ(desk.refusal(Hold{JobId{3}, true}).code, ErrorCode::NotFound);
    EXPECT_EQ(desk.refusal(SetPriority{JobId{3}, 1}).code, ErrorCode::NotFound);
    EXPECT_EQ(desk.refusal(Drain{"n", true}).code, ErrorCode::NotFound);
}

TEST(Commands, SaidTwiceChangeNothing) {
    Desk desk;
    const JobId id = desk.submit(wants(1, 1));
    desk.join("n", 0);
    for (const Input& input : {Input{Hold{id, true}}, Input{SetPriority{id, 4}},
                               Input{Drain{"n", true}}, Input{Cancel{id, "no"}}}) {
        EXPECT_FALSE(desk.tell(input).empty());
        EXPECT_TRUE(desk.tell(input).empty());
    }
}

TEST(Requeue, StopsTheAttemptAsAPreemptionAndQueuesTheJobAgain) {
    Desk desk;
    const WorkerId worker = desk.join("n", 1);
    spec::JobSpec spec = wants(1, 1);
    spec.retry.preempted = 1;
    const JobId id = desk.submit(spec);
    const JobId waits = desk.submit(wants(1, 1));
    EXPECT_TRUE(desk.tell(Requeue{waits, "ann"}).empty()) << "it is queued already";
    const AttemptKey key{id, desk.attempt(id).token};
    const Events events = desk.tell(Requeue{id, "ann"});
    ASSERT_FALSE(events.empty());
    const auto* const stopping = std::get_if<AttemptStopping>(&events.front());
    ASSERT_NE(stopping, nullptr);
    EXPECT_EQ(stopping->reason, "queued again by ann");
    EXPECT_TRUE(stopping->preempted);
    EXPECT_TRUE(desk.tell(Requeue{id, "ann"}).empty()) << "said twice";
    desk.tell(MemberExited{worker, key, Outcome::Stopped, 143, "", {}});
    EXPECT_EQ(desk.job(id).preemptions, 1);
    EXPECT_FALSE(is_over(desk.job(id).phase));
    EXPECT_EQ(desk.refusal(Requeue{id, "ann"}).message,
              "job 1 may not be queued again: retry.preempted is 1");
    EXPECT_EQ(desk.refusal(Requeue{JobId{9}, "ann"}).code, ErrorCode::NotFound);
    desk.tell(Cancel{waits, ""});
    EXPECT_TRUE(desk.tell(Requeue{waits, "ann"}).empty());
}

TEST(Worker, ThatWasRestartedLosesWhatItRan) {
    Desk desk;
    desk.join("n", 2);
    const JobId id = desk.submit(wants(1, 2));
    const Token before = desk.attempt(id).token;
    desk.tell(WorkerHello{"n", "newer", 2, 0});
    ASSERT_EQ(desk.job(id).past.size(), 1u);
    EXPECT_EQ(desk.job(id).past[0].outcome, Outcome::Infra);
    desk.pass(1s);
    EXPECT_GT(desk.attempt(id).token, before);
}

TEST(Worker, OfAnOlderSessionCannotComeBack) {
    Desk desk;
    desk.tell(WorkerHello{"n", "older", 2, 0});
    desk.tell(WorkerHello{"n", "newer", 2, 0});
    const State before = desk.state;
    EXPECT_EQ(desk.refusal(WorkerHello{"n", "older", 2, 0}).code, ErrorCode::Refused);
    EXPECT_EQ(desk.state, before);
}

TEST(Worker, ThatIsDeadAndWhoseFirstHelloComesLateTakesNothingOver) {
    Desk desk;
    desk.tell(WorkerHello{"n", "newer", 2, 0, std::nullopt, 8});
    EXPECT_EQ(desk.refusal(WorkerHello{"n", "older", 2, 0, std::nullopt, 7}).code,
              ErrorCode::Refused);
    desk.tell(WorkerGone{WorkerId{1}, "silent"});
    EXPECT_EQ(desk.refusal(WorkerHello{"n", "older", 2, 0, std::nullopt, 7}).code,
              ErrorCode::Refused);
    desk.tell(WorkerHello{"n", "newest", 2, 0, std::nullopt, 9});
    EXPECT_EQ(desk.state.workers.size(), 1u);
}

TEST(Worker, ThatWasSilentTooLongComesBackAsANewOne) {
    Desk desk;
    const WorkerId id = desk.join("n", 2);
    desk.tell(WorkerGone{id, "silent"});
    EXPECT_TRUE(desk.state.workers.empty());
    desk.tell(WorkerHello{"n", "n-1", 2, 0});
    ASSERT_EQ(desk.state.workers.size(), 1u);
    EXPECT_GT(desk.state.workers.begin()->first, id);
}

TEST(Worker, SaysHelloTwiceAndIsOne) {
    Desk desk;
    desk.tell(WorkerHello{"n", "s", 2, 0});
    EXPECT_TRUE(desk.tell(WorkerHello{"n", "s", 2, 0}).empty());
}

// The job's first attempt has ended and its second runs, so claims about the first are stale.
class Stale : public testing::Test {
  protected:
    Stale() {
        worker = desk.join("n", 1);
        id = desk.submit(wants(1, 1));
        old = desk.attempt(id);
        desk.exit(id, Outcome::Infra, 137, "killed by signal 9");
        desk.pass(1s);
    }
    Desk desk;
    WorkerId worker;
    JobId id;
    AttemptKey old;
};

// Leases rule 3: attempt numbers repeat after the ledger was restored, but incarnations do not.
TEST_F(Stale, AClaimWithTheNumberOfTheCurrentAttemptButAnotherIncarnationChangesNothing) {
    AttemptKey other = desk.attempt(id);
    other.token.incarnation += 1;
    const State before = desk.state;
    EXPECT_TRUE(desk.tell(MemberExited{worker, other, Outcome::Done, 0, ""}).empty());
    EXPECT_TRUE(desk.tell(CheckpointWritten{worker, other, 10, "/c"}).empty());
    EXPECT_EQ(desk.state, before);
}

// Leases rule 19: the older rolld may have given the job to another worker.
TEST(Adopting, AnOwedStartIsNotSentAgain) {
    Desk desk;
    const WorkerId worker = desk.join("n", 1);
    const JobId id = desk.submit(wants(1, 1));
    EXPECT_EQ(actions(desk.state), (std::vector<Action>{StartMember{worker, desk.attempt(id)}}));
    desk.tell(Started{0, true});
    EXPECT_EQ(actions(desk.state), (std::vector<Action>{KeepMember{worker, desk.attempt(id)}}));
    desk.tell(Adopted{});
    EXPECT_EQ(actions(desk.state), (std::vector<Action>{StartMember{worker, desk.attempt(id)}}));
}

TEST_F(Stale, ClaimsChangeNothing) {
    ASSERT_GT(desk.attempt(id).token, old.token);
    const State before = desk.state;
    for (const Input& claim :
         {Input{MemberStarted{worker, old}}, Input{MemberExited{worker, old, Outcome::Done, 0, ""}},
          Input{MemberUnknown{worker, old}}, Input{CheckpointWritten{worker, old, 10, "/c"}},
          Input{CheckpointDeleted{worker, old, 10, old.token}},
          Input{ExportWritten{worker, old, "/e"}}})
        EXPECT_TRUE(desk.tell(claim).empty());
    EXPECT_EQ(desk.state, before);
}

TEST_F(Stale, ClaimsOfAWorkerThatIsNoMemberChangeNothing) {
    const WorkerId other = desk.join("m", 1);
    EXPECT_TRUE(desk.tell(CheckpointWritten{other, desk.attempt(id), 10, "/c"}).empty());
    EXPECT_TRUE(desk.tell(MemberExited{other, desk.attempt(id), Outcome::Done, 0, ""}).empty());
}

TEST_F(Stale, CheckpointsOfOneAttemptOnlyGrow) {
    const AttemptKey key = desk.attempt(id);
    EXPECT_EQ(desk.tell(CheckpointWritten{worker, key, 20, "/c20"}).size(), 1u);
    EXPECT_TRUE(desk.tell(CheckpointWritten{worker, key, 20, "/c20"}).empty());
    EXPECT_TRUE(desk.tell(CheckpointWritten{worker, key, 10, "/c10"}).empty());
    EXPECT_EQ(desk.tell(CheckpointWritten{worker, key, 30, "/c30"}).size(), 1u);
    EXPECT_EQ(desk.tell(CheckpointDeleted{worker, key, 20, key.token}).size(), 1u);
    ASSERT_EQ(desk.job(id).checkpoints.size(), 1u);
    EXPECT_EQ(desk.job(id).checkpoints[0].step, 30);
}

TEST_F(Stale, ALaterAttemptThatHadToStartEarlierReplacesWhatItPasses) {
    const AttemptKey first = desk.attempt(id);
    desk.tell(CheckpointWritten{worker, first, 20, "/a20"});
    desk.tell(CheckpointWritten{worker, first, 30, "/a30"});
    desk.exit(id, Outcome::Infra);
    desk.pass(10s);
    const AttemptKey second = desk.attempt(id);
    desk.tell(CheckpointWritten{worker, second, 30, "/b30"});
    ASSERT_EQ(desk.job(id).checkpoints.size(), 2u);
    EXPECT_EQ(desk.job(id).checkpoints[0].directory, "/a20");
    EXPECT_EQ(desk.job(id).checkpoints[1].directory, "/b30");
}

TEST(Gang, HasStartedOnceEveryMemberIsUp) {
    Desk desk;
    desk.join("n", 1);
    desk.join("m", 1);
    const JobId id = desk.submit(wants(2, 1));
    const AttemptKey key = desk.attempt(id);
    const WorkerId first = desk.worker_of(id, 0);
    const WorkerId second = desk.worker_of(id, 1);
    desk.tell(MemberStarted{first, key});
    EXPECT_FALSE(desk.job(id).attempt->started_at);
    EXPECT_EQ(actions(desk.state),
              (std::vector<Action>{KeepMember{first, key}, StartMember{second, key}}));
    EXPECT_TRUE(desk.tell(MemberUnknown{second, key}).empty()) << "its order is still on the way";
    desk.tell(MemberStarted{second, key});
    EXPECT_EQ(desk.job(id).attempt->phase, AttemptPhase::Running);
    EXPECT_FALSE(desk.tell(MemberUnknown{second, key}).empty());
    EXPECT_EQ(actions(desk.state), (std::vector<Action>{StopMember{first, key}}));
}

}  // namespace
}  // namespace roll::core
