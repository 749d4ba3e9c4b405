// Begin times, deadlines and arrays.
#include "common/spec/schema/array.hpp"
#include "daemon/core/facts/lookups.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

TEST(Begin, HoldsAJobUntilItsTime) {
    Desk desk;
    desk.join("n", 1);
    spec::JobSpec spec = wants(1, 1);
    spec.begin = desk.now + 1h;
    const JobId later = desk.submit(spec);
    const JobId now = desk.submit(wants(1, 1));
    EXPECT_TRUE(is_running(desk, now)) << "one that is not due holds back nobody";
    desk.exit(now, Outcome::Done);
    EXPECT_EQ(next_wakeup(desk.state, desk.now), desk.now + 1h);
    desk.pass(1h - 1ms);
    EXPECT_FALSE(is_running(desk, later));
    desk.pass(1ms);
    EXPECT_TRUE(is_running(desk, later));
}

TEST(Begin, CanBeChangedInTheQueueAndEndsABackOff) {
    Desk desk;
    desk.join("n", 1);
    spec::JobSpec spec = wants(1, 1);
    spec.begin = desk.now + 1h;
    const JobId id = desk.submit(spec);
    desk.tell(SetBegin{id, desk.now});
    ASSERT_TRUE(is_running(desk, id));
    desk.exit(id, Outcome::Infra, 1, "lost");
    EXPECT_FALSE(is_running(desk, id));
    desk.tell(SetBegin{id, desk.now});
    EXPECT_TRUE(is_running(desk, id));
    EXPECT_EQ(desk.job(id).infra_failures, 1);
}

TEST(Deadline, CancelsAJobThatCanNoLongerEndInTime) {
    Desk desk;
    spec::JobSpec spec = wants(1, 1);
    spec.resources.time = 10min;
    spec.deadline = desk.now + 1h;
    const JobId id = desk.submit(spec);
    EXPECT_EQ(next_wakeup(desk.state, desk.now), desk.now + 50min + 1ms);
    desk.pass(50min);
    EXPECT_EQ(desk.job(id).phase, JobPhase::Queued);
    desk.pass(1ms);
    EXPECT_EQ(desk.job(id).phase, JobPhase::Cancelled);
    EXPECT_NE(desk.job(id).reason.find("deadline"), std::string::npos);
}

TEST(Deadline, StopsWhatRunsAndFailsIt) {
    Desk desk;
    desk.join("n", 1);
    spec::JobSpec spec = wants(1, 1);
    spec.deadline = desk.now + 1h;
    const JobId id = desk.submit(spec);
    ASSERT_TRUE(is_running(desk, id));
    desk.pass(1h + 1ms);
    EXPECT_EQ(desk.job(id).attempt->phase, AttemptPhase::Stopping);
    desk.exit(id, Outcome::Yielded, 75);
    EXPECT_EQ(desk.job(id).phase, JobPhase::Failed);
    EXPECT_EQ(desk.job(id).reason, "reached its deadline");
}

spec::JobSpec array(const std::string& text) {
    spec::JobSpec spec = wants(1, 1);
    spec.array = spec::parse_array(text).value();
    spec.output = "/runs/{index}-{id}";
    spec.document = R"({"command":["sh","{index}"]})";
    return spec;
}

TEST(Array, IsOneJobForEachIndex) {
    Desk desk;
    desk.submit(array("1,5-9:2"));
    ASSERT_EQ(desk.state.jobs.size(), 4u);
    EXPECT_EQ(desk.state.keys.at("ann").at("key-1"), JobId{1});
    EXPECT_EQ(desk.job(JobId{3}).spec.output, "/runs/7-3");
    EXPECT_EQ(desk.job(JobId{3}).spec.document.text(), R"({"command":["sh","7"]})");
    EXPECT_EQ(desk.job(JobId{3}).spec.document.own_size(), 1u) << "the rest is shared";
    EXPECT_EQ(desk.job(JobId{4}).array, JobId{1});
    Submit again{"key-1", "ann", array("1,5-9:2")};
    EXPECT_TRUE(desk.tell(again).empty());
    again.spec = array("1,5-9");
    EXPECT_EQ(desk.refusal(again).code, ErrorCode::Refused);
}

TEST(Array, RunsAtMostAsManyAsItsLimit) {
    Desk desk;
    desk.join("n", 8);
    desk.submit(array("0-4%2"));
    const JobId other = desk.submit(wants(1, 1));
    EXPECT_EQ(desk.state.index.running, (std::set{JobId{1}, JobId{2}, other}));
    desk.exit(JobId{1}, Outcome::Done);
    EXPECT_EQ(desk.state.index.running, (std::set{JobId{2}, JobId{3}, other}));
}

TEST(Array, FirstJobStandsForAllInAfter) {
    Desk desk;
    desk.join("n", 8);
    desk.submit(array("0-1"));
    spec::JobSpec after = wants(1, 1);
    after.after = {{spec::After::Condition::Ok, JobId{1}}};
    const JobId id = desk.submit(after);
    desk.exit(JobId{1}, Outcome::Done);
    EXPECT_FALSE(is_running(desk, id));
    desk.exit(JobId{2}, Outcome::Done);
    EXPECT_TRUE(is_running(desk, id));
}

// Two arrays of two jobs each. The second depends on the first.
class Behind : public testing::Test {
  protected:
    void submit(spec::After::Condition condition, const std::string& export_document = "") {
        desk.join("n", 8);
        spec::JobSpec first = array("0-1");
        first.kind = export_document.empty() ? spec::JobKind::Command : spec::JobKind::Train;
        first.export_document = export_document;
        first.retry.app = 0;
        desk.submit(first);
        spec::JobSpec second = array("0-1");
        second.after = {{condition, JobId{1}}};
        desk.submit(second);
    }
    JobPhase phase(std::uint64_t id) const { return desk.job(JobId{id}).phase; }
    Desk desk;
};

TEST_F(Behind, NamesTheArrayAndNotItsJobs) {
    submit(spec::After::Condition::Ok);
    const std::vector<spec::After> all{{spec::After::Condition::Ok, JobId{1}, true}};
    EXPECT_EQ(desk.job(JobId{4}).spec.after, all);
    desk.exit(JobId{2}, Outcome::Done);
    EXPECT_EQ(phase(3), JobPhase::Queued);
    desk.pass(1min);
    desk.exit(JobId{1}, Outcome::Done);
    EXPECT_EQ(phase(3), JobPhase::Running);
    EXPECT_EQ(ready_since(desk.state, desk.job(JobId{3}), desk.state.index), desk.now);
}

TEST_F(Behind, FallsWithTheFirstFailure) {
    submit(spec::After::Condition::Ok);
    desk.exit(JobId{2}, Outcome::App, 1);
    EXPECT_EQ(phase(1), JobPhase::Running);
    EXPECT_EQ(phase(3), JobPhase::Cancelled);
    EXPECT_EQ(desk.job(JobId{4}).reason,
              "a job of array 1 did not succeed, but this job waits for it to succeed");
}

TEST_F(Behind, StartsAfterASweepWhoseOtherTrialsHalvingStopped) {
    submit(spec::After::Condition::Ok);
    desk.tell(Cancel{.job = JobId{2}, .reason = "stopped by halving", .halved = true});
    desk.exit(JobId{2}, Outcome::Stopped, 143);
    EXPECT_EQ(phase(2), JobPhase::Cancelled);
    EXPECT_EQ(desk.job(JobId{2}).exit_code, 130);
    EXPECT_EQ(phase(3), JobPhase::Queued);
    desk.exit(JobId{1}, Outcome::Done);
    EXPECT_EQ(phase(3), JobPhase::Running);
}

TEST_F(Behind, WaitsForTheExportsOfTheTrialsThatHalvingLetContinue) {
    submit(spec::After::Condition::Exported, "{}");
    desk.tell(Cancel{.job = JobId{1}, .reason = "stopped by halving", .halved = true});
    desk.exit(JobId{1}, Outcome::Infra, 1, "lost");
    desk.exit(JobId{2}, Outcome::Done);
    EXPECT_EQ(phase(3), JobPhase::Queued) << "the export runs";
    desk.exit(*desk.job(JobId{2}).export_job, Outcome::Done);
    EXPECT_EQ(phase(3), JobPhase::Running);
}

TEST_F(Behind, IsNotCancelledIfHalvingStopsATrialInTheQueue) {
    submit(spec::After::Condition::Ok);
    desk.exit(JobId{2}, Outcome::Infra, 1, "lost");
    ASSERT_EQ(phase(2), JobPhase::Queued);
    desk.tell(Cancel{.job = JobId{2}, .reason = "stopped by halving", .halved = true});
    EXPECT_EQ(phase(2), JobPhase::Cancelled);
    EXPECT_EQ(phase(3), JobPhase::Queued);
    desk.exit(JobId{1}, Outcome::App, 1);
    EXPECT_EQ(phase(3), JobPhase::Cancelled) << "the surviving trial failed";
}

TEST_F(Behind, FallsAtOnceWithAllThatFollowsIt) {
    submit(spec::After::Condition::Ok);
    spec::JobSpec third = array("0-1");
    third.after = {{spec::After::Condition::Exported, JobId{3}}};
    desk.submit(third);
    desk.tell(Hold{JobId{1}, true});
    desk.tell(Cancel{JobId{3}, "no"});
    EXPECT_EQ(phase(4), JobPhase::Queued);
    EXPECT_EQ(phase(5), JobPhase::Cancelled);
    EXPECT_EQ(phase(6), JobPhase::Cancelled);
}

TEST_F(Behind, WaitsForFailureOfAllOrTheEndOfAll) {
    submit(spec::After::Condition::Any);
    spec::JobSpec third = array("0-1");
    third.after = {{spec::After::Condition::Failed, JobId{1}}};
    desk.submit(third);
    desk.exit(JobId{1}, Outcome::App, 1);
    EXPECT_EQ(phase(5), JobPhase::Queued);
    desk.exit(JobId{2}, Outcome::Done);
    EXPECT_EQ(phase(3), JobPhase::Running);
    EXPECT_EQ(phase(5), JobPhase::Cancelled);
}

TEST_F(Behind, WaitsForTheExportsOfAll) {
    submit(spec::After::Condition::Exported, "{}");
    desk.exit(JobId{1}, Outcome::Done);
    desk.exit(JobId{2}, Outcome::Done);
    EXPECT_EQ(phase(3), JobPhase::Queued) << "two exports run";
    desk.exit(*desk.job(JobId{2}).export_job, Outcome::Done);
    EXPECT_EQ(phase(3), JobPhase::Queued);
    desk.exit(*desk.job(JobId{1}).export_job, Outcome::Done);
    EXPECT_EQ(phase(3), JobPhase::Running);
}

TEST_F(Behind, FallsWithAnExport) {
    submit(spec::After::Condition::Exported, "{}");
    desk.exit(JobId{1}, Outcome::Done);
    desk.tell(Cancel{*desk.job(JobId{1}).export_job, "no"});
    desk.exit(*desk.job(JobId{1}).export_job, Outcome::Stopped, 143);
    EXPECT_EQ(phase(2), JobPhase::Running);
    EXPECT_EQ(phase(4), JobPhase::Cancelled);
}

class Again : public testing::Test {
  protected:
    Again() {
        desk.join("n", 4);
        spec.cron = "*/10 * * * *";
        spec.output = "/runs/x-{id}";
        id = desk.submit(spec);
    }
    JobId last() const { return JobId{desk.state.next_job - 1}; }
    Desk desk;
    spec::JobSpec spec = wants(1, 1);
    JobId id;
};

TEST_F(Again, AJobComesAtEachOfItsTimes) {
    EXPECT_EQ(desk.job(id).phase, JobPhase::Queued);
    EXPECT_EQ(next_wakeup(desk.state, desk.now), desk.now + 10min);
    desk.pass(10min);
    ASSERT_EQ(last(), JobId{2});
    EXPECT_EQ(desk.job(last()).spec.output, "/runs/x-2");
    EXPECT_TRUE(is_running(desk, last()));
    EXPECT_EQ(desk.job(id).phase, JobPhase::Queued) << "it never runs itself";
    desk.exit(last(), Outcome::Done);
    desk.pass(25min);
    EXPECT_EQ(last(), JobId{3}) << "one for the times that were missed";
}

TEST_F(Again, NoneComesBesideTheLast) {
    desk.pass(10min);
    desk.pass(10min);
    EXPECT_EQ(last(), JobId{2});
    desk.exit(last(), Outcome::Done);
    desk.pass(10min);
    EXPECT_EQ(last(), JobId{3});
}

TEST_F(Again, CanBeHeldSentNowAndCancelled) {
    desk.tell(Hold{id, true});
    desk.pass(10min);
    EXPECT_EQ(last(), id);
    desk.tell(Hold{id, false});
    desk.tell(SetBegin{id, desk.now});
    EXPECT_EQ(last(), JobId{2});
    desk.exit(last(), Outcome::Done);
    desk.tell(Cancel{id, ""});
    desk.pass(20min);
    EXPECT_EQ(last(), JobId{2});
    EXPECT_EQ(desk.job(id).phase, JobPhase::Cancelled);
}

TEST_F(Again, GoesWithNoArray) {
    spec.array = spec::parse_array("0-3").value();
    EXPECT_EQ(desk.refusal(Submit{"k", "ann", spec}).code, ErrorCode::InvalidArgument);
}

TEST(Dependencies, FallInLongChainsAtOnce) {
    Desk desk;
    JobId last = desk.submit(wants(1, 1));
    for (int i = 0; i < 200; ++i) {
        spec::JobSpec spec = wants(1, 1);
        spec.after = {{spec::After::Condition::Ok, last}};
        last = desk.submit(spec);
    }
    const Events events = desk.tell(Cancel{JobId{1}, "no"});
    EXPECT_EQ(events.size(), 202u);
    EXPECT_EQ(desk.job(last).phase, JobPhase::Cancelled);
}

}  // namespace
}  // namespace roll::core
