// Job groups: jobs are added to an open group until it is closed.
#include "common/spec/schema/array.hpp"
#include "daemon/core/apply/indexing.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

class Open : public testing::Test {
  protected:
    Open() {
        desk.join("n", 8);
        spec::JobSpec open = wants(1, 1);
        open.open = true;
        group = desk.submit(open);
    }
    JobId put(spec::JobSpec spec = wants(1, 1)) {
        spec.into = group;
        return desk.submit(spec);
    }
    JobPhase phase(JobId id) const { return desk.job(id).phase; }
    Error refused(spec::JobSpec spec, const std::string& user = "ann") const {
        return desk.refusal(Submit{"other", user, std::move(spec)});
    }

    Desk desk;
    JobId group;
};

TEST_F(Open, EndsWithTheLastOfItsJobsOnceItIsClosed) {
    EXPECT_EQ(phase(group), JobPhase::Queued) << "it runs nothing";
    const JobId first = put();
    desk.exit(first, Outcome::Done);
    EXPECT_EQ(phase(group), JobPhase::Queued) << "more may come";
    const JobId second = put();
    desk.tell(Close{group});
    EXPECT_EQ(phase(group), JobPhase::Queued) << "one is not over";
    desk.exit(second, Outcome::Done);
    EXPECT_EQ(phase(group), JobPhase::Done);
    EXPECT_TRUE(desk.tell(Close{group}).empty()) << "said again it changes nothing";
}

TEST_F(Open, EndsAtOnceIfNothingIsLeft) {
    desk.tell(Close{group});
    EXPECT_EQ(phase(group), JobPhase::Done);
}

TEST_F(Open, TakesNoJobOnceItIsCancelledEvenInTheSameTurn) {
    const auto cancelled = decide(desk.state, Cancel{group, "enough"}, desk.now);
    ASSERT_TRUE(cancelled);
    for (const Event& event : *cancelled) apply(desk.state, event);
    spec::JobSpec late = wants(1, 1);
    late.into = group;
    EXPECT_EQ(phase(group), JobPhase::Queued) << "the rules have not ended it yet";
    EXPECT_TRUE(refused(late).message.ends_with("no job can be added to it"));
}

TEST_F(Open, FailsWhereOneOfItsJobsDidNotEndWell) {
    spec::JobSpec once = wants(1, 1);
    once.retry.app = 0;
    const JobId bad = put(once);
    const JobId good = put();
    desk.exit(bad, Outcome::App, 3);
    desk.tell(Close{group});
    desk.exit(good, Outcome::Done);
    EXPECT_EQ(phase(group), JobPhase::Failed);
    EXPECT_EQ(desk.job(group).reason, "jobs of the group that did not succeed: 1 of 2");
}

TEST_F(Open, SucceedsAlthoughHalvingStoppedOneOfItsTrials) {
    const JobId stopped = put();
    const JobId best = put();
    desk.tell(Close{group});
    desk.tell(Cancel{.job = stopped, .reason = "stopped by halving", .halved = true});
    desk.exit(stopped, Outcome::Stopped, 143);
    EXPECT_EQ(phase(stopped), JobPhase::Cancelled);
    EXPECT_EQ(phase(group), JobPhase::Queued) << "one is not over";
    desk.exit(best, Outcome::Done);
    EXPECT_EQ(phase(group), JobPhase::Done);
}

TEST_F(Open, WhatComesAfterItWaitsForAllOfIt) {
    spec::JobSpec last = wants(1, 1);
    last.after = {{spec::After::Condition::Ok, group}};
    const JobId after = desk.submit(last);
    const JobId inside = put();  // submitted after the job that waits for its group
    desk.tell(Close{group});
    EXPECT_EQ(phase(after), JobPhase::Queued);
    desk.exit(inside, Outcome::Done);
    EXPECT_EQ(phase(after), JobPhase::Running);
}

TEST_F(Open, AllTasksOfAnArrayAndTheirExportsBelongToIt) {
    spec::JobSpec array = wants(1, 1);
    array.kind = spec::JobKind::Train;
    array.export_document = "{}";
    array.array = spec::parse_array("0-1").value();
    const JobId last = put(array);
    const JobId first{last.value - 1};
    desk.tell(Close{group});
    desk.exit(first, Outcome::Done);
    desk.exit(last, Outcome::Done);
    EXPECT_EQ(phase(group), JobPhase::Queued) << "two exports run";
    for (const JobId id : {first, last}) desk.exit(*desk.job(id).export_job, Outcome::Done);
    EXPECT_EQ(phase(group), JobPhase::Done);
}

TEST_F(Open, IsCancelledWithWhatIsInIt) {
    const JobId running = put();
    spec::JobSpec held = wants(1, 1);
    held.hold = true;
    const JobId queued = put(held);
    desk.tell(Cancel{group, "enough"});
    EXPECT_EQ(phase(group), JobPhase::Cancelled);
    EXPECT_EQ(phase(queued), JobPhase::Cancelled);
    EXPECT_EQ(desk.job(running).attempt->phase, AttemptPhase::Stopping);
    desk.exit(running, Outcome::Stopped, 143);
    EXPECT_EQ(desk.job(running).reason, "enough");
}

TEST_F(Open, TakesNothingThatDoesNotBelong) {
    spec::JobSpec spec = wants(1, 1);
    spec.output = "/runs/x-{id}";
    spec.into = group;
    EXPECT_EQ(refused(spec, "bob").message, "job 1 belongs to ann, not to bob");
    const JobId plain = desk.submit(wants(1, 1));
    spec.into = plain;
    EXPECT_EQ(refused(spec).message, "job 2 is not a job group: no job can be added to it");
    spec.into = JobId{99};
    EXPECT_EQ(refused(spec).code, ErrorCode::NotFound);
    put();
    desk.tell(Close{group});
    spec.into = group;
    EXPECT_EQ(refused(spec).message, "job 1 is closed: no job can be added to it");
    EXPECT_EQ(desk.refusal(Close{plain}).message, "job 2 is not a job group");
    spec::JobSpec nested = wants(1, 1);
    nested.open = true;
    nested.into = group;
    EXPECT_EQ(refused(nested).code, ErrorCode::InvalidArgument);
    spec.cron = "@daily";
    EXPECT_EQ(refused(spec).code, ErrorCode::InvalidArgument);
}

TEST_F(Open, TakesNothingThatWaitsForIt) {
    spec::JobSpec last = wants(1, 1);
    last.output = "/runs/x-{id}";
    last.after = {{spec::After::Condition::Ok, group}};
    const JobId after = desk.submit(last);
    last.into = group;
    EXPECT_EQ(refused(last).message,
              "job 1 cannot contain this job: the job group ends only after all its jobs, but this "
              "job waits "
              "(`after`) for job 1");
    last.after = {{spec::After::Condition::Any, after}};
    EXPECT_EQ(refused(last).code, ErrorCode::Refused) << "through another";
    spec::JobSpec open = wants(1, 1);
    open.open = true;
    const JobId other = desk.submit(open);
    last.into = other;
    last.after = {{spec::After::Condition::Ok, group}};
    desk.submit(last);
    last.into = group;
    last.after = {{spec::After::Condition::Ok, other}};
    EXPECT_EQ(refused(last).code, ErrorCode::Refused) << "through an open job";
    last.after = {{spec::After::Condition::Ok, put()}};
    desk.submit(last);
}

TEST_F(Open, IndexIsThatOfItsJobs) {
    put();
    desk.tell(Close{group});
    EXPECT_EQ(desk.state.index, make_index(desk.state));
}

}  // namespace
}  // namespace roll::core
