#include "tests/daemon/core/site.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

TEST(Order, OneForAJobThatNothingCanHold) {
    Site site;
    EXPECT_EQ(site.alive(), 0U);
    const JobId job = site.submit(wants(1, 1, 2));
    ASSERT_TRUE(site.has(1));
    EXPECT_TRUE(site.owes<OrderAllocation>(1));
    site.accept(1);
    EXPECT_TRUE(site.owes<WatchAllocation>(1));
    site.pilot_comes(1, "n1");
    EXPECT_EQ(site.at(1).phase, AllocationPhase::Granted);
    EXPECT_EQ(site.job(job).phase, JobPhase::Running);
    EXPECT_EQ(site.alive(), 1U);
}

TEST(Order, NoneForWhatFitsWhereSomethingIs) {
    Site site;
    site.join("own", 4, 2);
    site.submit(wants(1, 1, 1));
    EXPECT_EQ(site.alive(), 0U);
    // could wait for the first job to end, but an allocation is faster
    site.submit(wants(1, 1, 2));
    EXPECT_EQ(site.alive(), 1U);
}

TEST(Order, NoneForWhatNoQueueOffers) {
    Site site;
    site.submit(wants(1, 1, 9));
    site.submit(wants(11, 1, 1));  // more than max_jobs, which is 10
    spec::JobSpec longer = wants(1, 1, 1);
    longer.resources.time = 59min;  // too long: an allocation has an hour less the handover
    site.submit(longer);
    EXPECT_EQ(site.alive(), 0U);
}

TEST(Order, HeldAndSleepingJobsOrderNothing) {
    Site site;
    spec::JobSpec held = wants(1, 1, 1);
    held.hold = true;
    const JobId job = site.submit(held);
    spec::JobSpec after = wants(1, 1, 1);
    after.after.push_back({spec::After::Condition::Ok, job});
    site.submit(after);
    EXPECT_EQ(site.alive(), 0U);
}

TEST(Order, PacksSmallJobsBeforeItOrdersMore) {
    Site site;
    site.prove();
    for (int i = 0; i < 16; ++i) site.submit(wants(1, 1, 1));
    EXPECT_EQ(site.alive(), 2U);  // 8 jobs run in the first allocation, and 8 wait for the second
    site.submit(wants(1, 1, 1));
    EXPECT_EQ(site.alive(), 3U);
}

TEST(Order, ProbesBeforeAFlood) {
    Site site;
    for (int i = 0; i < 5; ++i) site.submit(wants(1, 1, 8));
    EXPECT_EQ(site.alive(), 1U);
    site.accept(1);
    EXPECT_EQ(site.alive(), 1U);
    site.pilot_comes(1, "n1");
    EXPECT_EQ(site.alive(), 5U);
}

TEST(Order, KeepsToTheBacklog) {
    spec::PilotQueue queue = gpu_queue();
    queue.backlog = 2;
    Site site(queue);
    site.prove();
    for (int i = 0; i < 6; ++i) site.submit(wants(1, 1, 8));
    EXPECT_EQ(site.alive(), 3U);
    site.see(2, SlurmPhase::Pending);
    EXPECT_EQ(site.alive(), 3U);
    site.see(2, SlurmPhase::Running);
    EXPECT_EQ(site.alive(), 4U);
}

TEST(Order, KeepsToEveryLimit) {
    spec::PilotQueue queue = gpu_queue();
    queue.nodes = 2;
    queue.max_nodes = 5;
    Site nodes(queue);
    nodes.prove();
    for (int i = 0; i < 9; ++i) nodes.submit(wants(1, 1, 8));
    EXPECT_EQ(nodes.alive(), 2U);
    queue.max_nodes = 0;
    queue.max_jobs = 3;
    Site jobs(queue);
    jobs.prove();
    for (int i = 0; i < 9; ++i) jobs.submit(wants(1, 1, 8));
    EXPECT_EQ(jobs.alive(), 3U);
}

TEST(Order, GpuHoursCountWhatIsAliveAtItsFullTime) {
    spec::PilotQueue queue = gpu_queue();
    queue.max_gpu_hours = 20;  // one allocation uses 8 of these GPU-hours
    Site site(queue);
    site.prove();
    for (int i = 0; i < 9; ++i) site.submit(wants(1, 1, 8));
    EXPECT_EQ(site.alive(), 2U);
}

TEST(Order, AGangOverSeveralAllocations) {
    Site site;
    site.prove();
    const JobId gang = site.submit(wants(3, 1, 8));
    EXPECT_EQ(site.alive(), 3U);
    site.accept(2);
    site.accept(3);
    site.pilot_comes(2, "n2");
    site.pass(30min);  // the gang's members wait for the rest and do not count as idle
    EXPECT_EQ(site.alive(), 3U);
    EXPECT_FALSE(site.at(2).releasing);
    site.pilot_comes(3, "n3");
    EXPECT_EQ(site.job(gang).phase, JobPhase::Running);
}

// A job that waits for live workers must not keep nodes that were ordered for another job, because
// they would then be ordered twice.
TEST(Order, NothingTwiceBesideAGangThatWaitsForBusyWorkers) {
    Site site;
    site.prove();
    std::vector<JobId> busy;
    for (const char* node : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}) {
        site.join(node, 8, 0);
        busy.push_back(site.submit(wants(1, 8)));
    }
    site.submit(wants(11, 1));  // one more node than the queue could add; live workers can hold it
    site.submit(wants(1, 1, 8));  // n1 is free, but kept for the gang
    const std::size_t before = site.alive();
    site.pass(std::chrono::seconds(1));
    site.pass(std::chrono::seconds(1));
    EXPECT_EQ(site.alive(), before);
    EXPECT_LE(before, 2U);
}

TEST(Order, AGangWiderThanTheBacklogComesAllTheSame) {
    spec::PilotQueue queue = gpu_queue();
    queue.backlog = 1;
    Site site(queue);
    site.prove();
    site.submit(wants(4, 1, 8));
    EXPECT_EQ(site.alive(), 4U);
    site.submit(wants(1, 1, 8));
    EXPECT_EQ(site.alive(), 4U);
}

TEST(Failure, BacksOffThenPausesUntilResumed) {
    Site site;
    site.submit(wants(1, 1, 8));
    for (int i = 1; i <= 4; ++i) {
        ASSERT_TRUE(site.has(i)) << i;
        site.refuse(i);
        EXPECT_EQ(site.alive(), 0U);
        EXPECT_EQ(site.queue().not_before, site.now + 30s * (1 << (i - 1)));
        EXPECT_EQ(next_wakeup(site.state, site.now), site.queue().not_before);
        site.pass(30s * (1 << (i - 1)));
    }
    site.refuse(5);
    EXPECT_TRUE(site.queue().paused);
    EXPECT_NE(site.queue().reason.find("in a row failed; the last one: "), std::string::npos);
    site.pass(24h);
    EXPECT_EQ(site.alive(), 0U);
    site.tell(PauseQueue{"gpu", false});
    EXPECT_EQ(site.queue().failures, 0);
    EXPECT_EQ(site.alive(), 1U);
}

TEST(Failure, APilotThatComesClearsThem) {
    Site site;
    const JobId job = site.submit(wants(1, 1, 8));
    site.refuse(1);
    site.pass(30s);
    site.accept(2);
    site.see(2, SlurmPhase::Running);
    EXPECT_EQ(site.queue().failures, 1);
    site.pilot_comes(2, "n1");
    EXPECT_EQ(site.queue().failures, 0);
    EXPECT_EQ(site.job(job).phase, JobPhase::Running);
}

TEST(Failure, AnAllocationThatEndsBeforeAnyWorkerComes) {
    Site site;
    site.submit(wants(1, 1, 8));
    site.accept(1);
    site.see(1, SlurmPhase::Running);
    site.see(1, SlurmPhase::Ended, "NODE_FAIL");
    EXPECT_EQ(site.queue().failures, 1);
    EXPECT_FALSE(site.has(1));
}

TEST(Release, AnOrderThatNoJobNeedsAnyMore) {
    Site site;
    const JobId job = site.submit(wants(1, 1, 8));
    site.accept(1);
    site.tell(Cancel{job, ""});
    EXPECT_TRUE(site.at(1).releasing);
    EXPECT_TRUE(site.owes<GiveBackAllocation>(1));
    site.see(1, SlurmPhase::Ended, "CANCELLED");
    EXPECT_FALSE(site.has(1));
    EXPECT_EQ(site.queue().failures, 0);
}

TEST(Release, AnIdleAllocationAfterItsTime) {
    Site site;
    site.prove();
    EXPECT_EQ(next_wakeup(site.state, site.now), site.now + 5min);
    site.pass(5min - 1s);
    EXPECT_FALSE(site.at(1).releasing);
    site.pass(1s);
    EXPECT_TRUE(site.at(1).releasing);
    site.submit(wants(1, 1, 1));  // too late: the allocation is already being released
    EXPECT_EQ(site.alive(), 2U);
    site.see(1, SlurmPhase::Ended);  // ignored, because the allocation's worker is still heard from
    EXPECT_TRUE(site.has(1));
    site.tell(WorkerGone{WorkerId{1}, "silent"});
    site.see(1, SlurmPhase::Ended);
    EXPECT_FALSE(site.has(1));
    EXPECT_EQ(site.queue().gpu_seconds, 8 * 300);
}

TEST(Release, NothingThatWorks) {
    Site site;
    site.submit(wants(1, 1, 1));
    site.accept(1);
    site.pilot_comes(1, "n1");
    site.pass(50min);
    EXPECT_FALSE(site.at(1).releasing);
}

TEST(Release, JobsLeaveBeforeTheEndAndGoOnElsewhere) {
    Site site;
    const JobId job = site.submit(wants(1, 1, 8));
    site.accept(1);
    site.pilot_comes(1, "n1");
    site.pass(58min - 1s);
    EXPECT_EQ(site.job(job).attempt->phase, AttemptPhase::Starting);
    site.pass(1s);
    EXPECT_EQ(site.job(job).attempt->phase, AttemptPhase::Stopping);
    EXPECT_FALSE(site.owes<GiveBackAllocation>(1));  // a job in the allocation is still saving
    site.exit(job, Outcome::Yielded, 75);
    EXPECT_TRUE(site.owes<GiveBackAllocation>(1));
    EXPECT_TRUE(site.has(2));
    EXPECT_EQ(site.job(job).infra_failures, 0);
    site.accept(2);
    site.pilot_comes(2, "n2");
    EXPECT_EQ(site.job(job).phase, JobPhase::Running);
}

// The queue's handover is two minutes, but saves of three minutes need four.
TEST(Release, EarlierForAJobWhoseSavesNeedMore) {
    Site site;
    spec::JobSpec train = wants(1, 1, 8);
    train.kind = spec::JobKind::Train;
    const JobId job = site.submit(train);
    site.accept(1);
    const WorkerId worker = site.pilot_comes(1, "n1");
    site.tell(MemberStarted{worker, site.attempt(job)});
    site.tell(CheckpointWritten{worker, site.attempt(job), 10, "/c", 0, 180'000});
    site.pass(50min);
    EXPECT_EQ(next_wakeup(site.state, site.now), site.now + 6min);
    site.pass(6min - 1s);
    EXPECT_EQ(site.job(job).attempt->phase, AttemptPhase::Running);
    site.pass(1s);
    EXPECT_EQ(site.job(job).attempt->phase, AttemptPhase::Stopping);
    EXPECT_TRUE(site.at(1).releasing);
}

TEST(Release, ByAQuarterOfItsTimeAtMost) {
    Site site;
    spec::JobSpec train = wants(1, 1, 8);
    train.kind = spec::JobKind::Train;
    const JobId job = site.submit(train);
    site.accept(1);
    const WorkerId worker = site.pilot_comes(1, "n1");
    site.tell(CheckpointWritten{worker, site.attempt(job), 10, "/c", 0, 3'000'000});
    site.pass(45min - 1s);
    EXPECT_FALSE(site.at(1).releasing);
    site.pass(1s);
    EXPECT_TRUE(site.at(1).releasing);
}

TEST(Release, AnEndThatSlurmMovedUpCounts) {
    Site site;
    const JobId job = site.submit(wants(1, 1, 8));
    site.accept(1);
    site.pilot_comes(1, "n1");
    site.tell(
        OrderSeen{AllocationId{1}, "slurm-1", SlurmPhase::Running, "", site.now, site.now + 3min});
    EXPECT_NE(site.job(job).attempt->phase, AttemptPhase::Stopping);
    site.pass(1min);
    EXPECT_EQ(site.job(job).attempt->phase, AttemptPhase::Stopping);
}

TEST(Release, AGrantedAllocationWhoseWorkersNeverCome) {
    Site site;
    site.submit(wants(1, 1, 8));
    site.accept(1);
    site.see(1, SlurmPhase::Running);
    site.pass(10min);
    EXPECT_TRUE(site.at(1).releasing);
    site.see(1, SlurmPhase::Ended, "CANCELLED");
    EXPECT_EQ(site.queue().failures, 1);
}

TEST(Place, AsksForTheTimeThatIsLeft) {
    Site site;
    site.submit(wants(1, 1, 1));
    site.accept(1);
    site.pilot_comes(1, "n1");
    site.pass(30min);
    spec::JobSpec shorter = wants(1, 1, 1);
    shorter.resources.time = 28min;
    spec::JobSpec longer = wants(1, 1, 1);
    longer.resources.time = 29min;
    EXPECT_EQ(site.job(site.submit(shorter)).phase, JobPhase::Running);
    EXPECT_EQ(site.job(site.submit(longer)).phase, JobPhase::Queued);
    EXPECT_EQ(site.alive(), 2U);
}

TEST(Pilot, OfAnotherOrderIsTurnedAway) {
    Site site;
    site.submit(wants(1, 1, 8));
    site.accept(1);
    const auto hello = [&](Pilot pilot) {
        return site.refusal(WorkerHello{"n1", "s", 8, 8, std::move(pilot)}).code;
    };
    Pilot unknown = site.pilot(9);
    EXPECT_EQ(hello(unknown), ErrorCode::Refused);
    Pilot duplicate = site.pilot(1);
    duplicate.slurm_job = "another";
    EXPECT_EQ(hello(duplicate), ErrorCode::Refused);
    Pilot older = site.pilot(1);
    --older.incarnation;
    EXPECT_EQ(hello(older), ErrorCode::Refused);
    EXPECT_TRUE(site.state.workers.empty());
}

TEST(Pilot, ComesBeforeSbatchAnswers) {
    Site site;
    site.submit(wants(1, 1, 8));
    site.pilot_comes(1, "n1");
    EXPECT_EQ(site.at(1).slurm_job, "slurm-1");
    EXPECT_TRUE(site.tell(OrderAnswered{AllocationId{1}, true, "slurm-1", ""}).empty());
}

// A user may have started the batch script by hand, for example.
TEST(Pilot, OutsideOfSlurmIsTurnedAway) {
    Site site;
    site.submit(wants(1, 1, 8));
    Pilot pilot = site.pilot(1);
    pilot.slurm_job.clear();
    const Error refused = site.refusal(WorkerHello{"n1", "s", 8, 8, pilot});
    EXPECT_NE(refused.message.find("SLURM_JOB_ID"), std::string::npos) << refused.message;
    site.see(1, SlurmPhase::Running);
    EXPECT_EQ(site.at(1).slurm_job, "slurm-1");
}

// An earlier rolld has accepted such a worker and recorded it in the ledger.
TEST(Pilot, OutsideOfSlurmThatWasLetInIsNoReasonToEnd) {
    Site site;
    site.submit(wants(1, 1, 8));
    site.careful = false;
    apply(site.state, AllocationAccepted{AllocationId{1}, ""});
    site.see(1, SlurmPhase::Running);
    EXPECT_EQ(site.at(1).phase, AllocationPhase::Granted);
    site.see(1, SlurmPhase::Ended);
    EXPECT_FALSE(site.has(1));
}

TEST(Unknown, NeverMeansDead) {
    Site site;
    site.submit(wants(1, 1, 8));
    site.accept(1);
    const WorkerId worker = site.pilot_comes(1, "n1");
    EXPECT_TRUE(site.tell(OrderMissing{AllocationId{1}, "not in squeue"}).empty());
    site.tell(WorkerGone{worker, "silent"});
    site.tell(OrderMissing{AllocationId{1}, "not in squeue"});
    EXPECT_FALSE(site.has(1));
}

TEST(Slurm, AnEndIsBelievedOfWorkersThatHaveSaidGoodbye) {
    Site site;
    const JobId job = site.submit(wants(1, 1, 8));
    site.accept(1);
    site.pilot_comes(1, "n1");
    site.tell(Drain{"n1", true});
    site.see(1, SlurmPhase::Ended, "CANCELLED");
    EXPECT_TRUE(site.has(1));  // the worker has not reported the end of its job
    site.exit(job, Outcome::Yielded, 75);
    site.see(1, SlurmPhase::Ended, "CANCELLED");
    EXPECT_FALSE(site.has(1));
    EXPECT_TRUE(site.state.workers.empty());
}

TEST(Slurm, MayQueueAnAllocationAgain) {
    Site site;
    site.submit(wants(1, 1, 8));
    site.accept(1);
    const WorkerId worker = site.pilot_comes(1, "n1");
    site.see(1, SlurmPhase::Pending);  // ignored, because the allocation's worker is heard from
    EXPECT_EQ(site.at(1).phase, AllocationPhase::Granted);
    site.tell(WorkerGone{worker, "silent"});
    site.see(1, SlurmPhase::Pending);
    EXPECT_EQ(site.at(1).phase, AllocationPhase::Pending);
    EXPECT_TRUE(site.owes<GiveBackAllocation>(1));
}

TEST(Slurm, ARequeuedAllocationIsGivenBackThoughItsWorkerIsNotSilentForLong) {
    Site site;
    const JobId job = site.submit(wants(1, 1, 8));
    site.accept(1);
    site.pilot_comes(1, "n1");
    site.tell(Drain{"n1", true});
    site.exit(job, Outcome::Yielded, 75);
    site.see(1, SlurmPhase::Pending);
    EXPECT_TRUE(site.state.workers.empty());
    EXPECT_TRUE(site.owes<GiveBackAllocation>(1));
    site.accept(2);
    site.pilot_comes(2, "n2");
    EXPECT_EQ(site.job(job).phase, JobPhase::Running);
}

TEST(Queue, IsRemovedWhenItsAllocationsAreGone) {
    Site site;
    const JobId job = site.submit(wants(1, 1, 8));
    site.accept(1);
    const WorkerId worker = site.pilot_comes(1, "n1");
    site.tell(RemoveQueue{"gpu"});
    EXPECT_EQ(site.job(job).attempt->phase, AttemptPhase::Stopping);
    site.exit(job, Outcome::Yielded, 75);
    site.tell(WorkerGone{worker, "ended"});
    site.see(1, SlurmPhase::Ended, "CANCELLED");
    EXPECT_TRUE(site.state.queues.empty());
    EXPECT_EQ(site.refusal(RemoveQueue{"gpu"}).code, ErrorCode::NotFound);
}

TEST(Queue, ANameIsTakenOnce) {
    Site site;
    EXPECT_TRUE(site.tell(AddQueue{gpu_queue()}).empty());
    spec::PilotQueue other = gpu_queue();
    other.nodes = 2;
    EXPECT_EQ(site.refusal(AddQueue{other}).code, ErrorCode::Refused);
}

// The output of training jobs is named by token, so two attempts at the same time do no harm. The
// output of other jobs is not.
TEST(NodeDown, EndsWhatTrainsOnASilentWorkerAndNothingElse) {
    Site site;
    spec::JobSpec train = wants(1, 1, 1);
    train.kind = spec::JobKind::Train;
    const JobId trains = site.submit(train);
    site.accept(1);
    const WorkerId worker = site.pilot_comes(1, "n1");
    std::vector<JobId> others;
    for (const auto kind : {spec::JobKind::Command, spec::JobKind::Convert, spec::JobKind::Merge,
                            spec::JobKind::Tokenize}) {
        spec::JobSpec other = wants(1, 1, 1);
        other.kind = kind;
        others.push_back(site.submit(other));
    }
    EXPECT_TRUE(site.tell(NodeDown{worker, "Slurm says so"}).empty()) << "it is heard";
    site.tell(WorkerHeard{worker, false});
    const AttemptKey first = site.attempt(trains);
    site.tell(NodeDown{worker, "Slurm says so"});
    EXPECT_EQ(site.job(trains).past.at(0).reason, "Slurm says so");
    EXPECT_EQ(site.job(trains).past.at(0).outcome, Outcome::Infra);
    for (const JobId other : others) EXPECT_EQ(site.job(other).phase, JobPhase::Running);
    EXPECT_TRUE(site.tell(NodeDown{worker, "Slurm says so"}).empty()) << "said again";
    // If the worker is heard from again, its report about the attempt does not count, and it gets
    // no new work.
    site.tell(WorkerHeard{worker, true});
    EXPECT_TRUE(site.tell(CheckpointWritten{worker, first, 10, "/c"}).empty());
    site.pass(1min);
    EXPECT_NE(site.job(trains).phase, JobPhase::Running);
    EXPECT_TRUE(site.state.workers.at(worker).draining);
    site.see(1, SlurmPhase::Ended, "NODE_FAIL");
    EXPECT_TRUE(site.has(1)) << "others run there";
    for (const JobId other : others) site.exit(other, Outcome::Done);
    site.see(1, SlurmPhase::Ended, "NODE_FAIL");
    EXPECT_FALSE(site.has(1));
}

}  // namespace
}  // namespace roll::core
