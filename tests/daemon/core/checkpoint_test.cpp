// Checkpoints and other requests that a user makes to a running training.
#include "tests/daemon/core/desk.hpp"

namespace roll::core {
namespace {

class AskedFor : public testing::Test {
  protected:
    AskedFor() {
        desk.join("n", 2);
        spec = wants(1, 1);
        spec.kind = spec::JobKind::Train;
    }
    void written(JobId id, std::int64_t step, std::uint64_t asked) {
        desk.tell(CheckpointWritten{desk.worker_of(id), desk.attempt(id), step, "/c", asked});
    }
    const Attempt& attempt(JobId id) const { return *desk.job(id).attempt; }
    Desk desk;
    spec::JobSpec spec;
};

TEST_F(AskedFor, IsOwedUntilOneThatAnswersIsRecorded) {
    const JobId id = desk.submit(spec);
    desk.tell(AskCheckpoint{id});
    desk.tell(AskCheckpoint{id});
    EXPECT_EQ(attempt(id).asked, 2u);
    written(id, 10, 0);
    EXPECT_EQ(attempt(id).saved, 0u) << "begun before it was asked for";
    written(id, 11, 1);
    EXPECT_EQ(attempt(id).saved, 1u);
    written(id, 12, 2);
    EXPECT_EQ(attempt(id).saved, 2u);
    EXPECT_EQ(desk.job(id).checkpoints.back().asked, 2u);
}

TEST_F(AskedFor, MoreThanWasAskedForIsNotBelieved) {
    const JobId id = desk.submit(spec);
    desk.tell(AskCheckpoint{id});
    written(id, 10, 7);
    EXPECT_EQ(attempt(id).saved, 1u);
}

TEST_F(AskedFor, IsForgottenWithItsAttempt) {
    const JobId id = desk.submit(spec);
    desk.tell(AskCheckpoint{id});
    desk.exit(id, Outcome::Infra, 137);
    desk.pass(std::chrono::seconds(1));
    EXPECT_EQ(attempt(id).asked, 0u);
}

TEST_F(AskedFor, IsRefusedInOneSentenceWhereThereIsNothingToSave) {
    const auto why = [&](JobId id) { return desk.refusal(AskCheckpoint{id}).message; };
    spec::JobSpec command = wants(1, 1);
    EXPECT_EQ(why(desk.submit(command)),
              "job 1 is a command job; only train and resume jobs write checkpoints");
    spec.hold = true;
    const JobId id = desk.submit(spec);
    EXPECT_EQ(why(id), "job 2 is queued; only running jobs save checkpoints");
    desk.tell(Hold{id, false});
    desk.tell(Cancel{id, ""});
    EXPECT_EQ(why(id), "job 2 is already stopping and saves a checkpoint as it stops");
    desk.exit(id, Outcome::Stopped);
    EXPECT_EQ(why(id), "job 2 has ended; rollctl show lists its checkpoints");
    EXPECT_EQ(why(JobId{9}), "there is no job 9");
}

// The member that would save has ended, and the other one ends later.
TEST_F(AskedFor, IsRefusedOfAGangThatIsEnding) {
    desk.join("m", 2);
    spec.resources.nodes = 2;
    const JobId id = desk.submit(spec);
    for (const std::size_t member : {0, 1})
        desk.tell(MemberStarted{desk.worker_of(id, member), desk.attempt(id)});
    desk.tell(MemberExited{desk.worker_of(id), desk.attempt(id), Outcome::Done, 0, ""});
    EXPECT_EQ(desk.refusal(AskCheckpoint{id}).message,
              "job 1 is ending: its processes on some nodes have already ended");
}

TEST_F(AskedFor, ARequestWaitsUntilItsAnswerIsRecordedOnce) {
    const JobId id = desk.submit(spec);
    const auto done = [&](std::uint64_t number, std::int64_t stop) {
        return desk.tell(RequestDone{desk.worker_of(id), desk.attempt(id), {number, 7, stop, "x"}})
            .size();
    };
    desk.tell(AskTraining{id, RequestKind::Evaluate, 0, "ann"});
    desk.tell(AskTraining{id, RequestKind::StopAtStep, 90, "ann"});
    ASSERT_EQ(attempt(id).requests.size(), 2u);
    EXPECT_EQ(attempt(id).requests[1].request, (TrainingRequest{2, RequestKind::StopAtStep, 90}));
    EXPECT_EQ(done(2, 90), 1u);
    EXPECT_EQ(done(2, 50), 0u) << "the first answer counts";
    EXPECT_EQ(done(3, 50), 0u) << "nobody asked for it";
    EXPECT_FALSE(attempt(id).requests[0].answer);
    EXPECT_EQ(attempt(id).requests[1].answer->step, 7);
    EXPECT_EQ(desk.job(id).stop_step, 90);
    desk.exit(id, Outcome::Infra, 137);
    desk.pass(std::chrono::seconds(60));
    EXPECT_TRUE(attempt(id).requests.empty());
    EXPECT_EQ(desk.job(id).past.back().requests.size(), 2u);
    EXPECT_EQ(desk.job(id).stop_step, 90) << "the next attempt ends there, too";
}

TEST_F(AskedFor, TheOldestAnsweredRequestsAreForgottenAndTooManyMayNotWait) {
    const JobId id = desk.submit(spec);
    desk.tell(AskTraining{id, RequestKind::Profile, 100});
    for (std::uint64_t number = 2; number <= 50; ++number) {
        desk.tell(AskTraining{id, RequestKind::Evaluate});
        desk.tell(RequestDone{desk.worker_of(id), desk.attempt(id), {number, 7, 0, ""}});
    }
    EXPECT_EQ(attempt(id).requests.size(), kRequestsKept);
    EXPECT_EQ(attempt(id).requests.back().request.number, 50u);
    EXPECT_FALSE(attempt(id).requests.front().answer) << "it still waits";
    for (int i = 0; i < 15; ++i) desk.tell(AskTraining{id, RequestKind::Evaluate});
    EXPECT_EQ(desk.refusal(AskTraining{id, RequestKind::Evaluate}).message,
              "job 1 has not answered 16 requests yet; wait until the job answers one of these "
              "requests");
}

TEST_F(AskedFor, ARequestIsRefusedInOneSentence) {
    const auto why = [&](JobId id, RequestKind kind, std::int64_t value) {
        return desk.refusal(AskTraining{id, kind, value}).message;
    };
    spec.hold = true;
    const JobId id = desk.submit(spec);
    EXPECT_EQ(why(id, RequestKind::Evaluate, 0),
              "job 1 is queued; only running jobs take requests");
    EXPECT_EQ(why(id, RequestKind::Evaluate, 3), "request evaluate takes no value; the value is 3");
    EXPECT_EQ(why(id, RequestKind::Profile, 0),
              "request profile: the value is 0; allowed: 1 to 100");
    desk.tell(Cancel{id, ""});
    EXPECT_EQ(why(id, RequestKind::StopAtEpoch, 0),
              "job 1 has ended; only running jobs take requests");
}

}  // namespace
}  // namespace roll::core
