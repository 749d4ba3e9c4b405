// Checkpoints that a user requests.
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

}  // namespace
}  // namespace roll::core
