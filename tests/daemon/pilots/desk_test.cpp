#include "daemon/pilots/desk.hpp"

#include "tests/daemon/core/desk.hpp"

namespace roll::pilots {
namespace {

using namespace std::chrono_literals;
using core::AllocationPhase;
using slurm::Phase;
using slurm::QueueRow;
using slurm::Submission;

// A core with an allocation queue, and a Desk. Both use the same steady clock.
struct Site {
    Site() {
        spec::PilotQueue queue;
        queue.name = "gpu";
        queue.slots = 8;
        queue.gpus = 8;
        queue.time = 1h;
        core.tell(core::AddQueue{queue});
    }

    void pass(std::chrono::milliseconds time) {
        now += time;
        core.pass(time);
    }
    std::optional<Errand> next() {
        for (const core::Input& input : desk.withdraw(core.state)) core.tell(input);
        return desk.next(core.state, now);
    }
    template <class Wanted>
    Wanted expect() {
        const auto errand = next();
        EXPECT_TRUE(errand && std::holds_alternative<Wanted>(*errand));
        return errand && std::holds_alternative<Wanted>(*errand) ? std::get<Wanted>(*errand)
                                                                 : Wanted{};
    }
    void done(const Outcome& outcome) {
        for (const core::Input& input : desk.take(outcome, core.state, now)) core.tell(input);
    }
    void polled(std::vector<QueueRow> rows) { done(Polled{std::move(rows)}); }
    // Submits a job that no free worker can hold. Returns the allocation that is ordered for it.
    AllocationId want() {
        job = core.submit(core::wants(1, 1, 8));
        return AllocationId{core.state.next_allocation - 1};
    }
    AllocationId accepted() {
        const AllocationId id = want();
        expect<Submit>();
        done(Submitted{id, Submission::Accepted, "7", ""});
        return id;
    }
    bool has(AllocationId id) const { return core.state.allocations.contains(id); }
    AllocationPhase phase(AllocationId id) const { return core.state.allocations.at(id).phase; }
    static QueueRow row(const std::string& id, const std::string& state, const std::string& key) {
        return {id, state, slurm::phase_of(state), "Resources", {}, {}, 1, "roll:alloc=" + key};
    }

    core::Desk core;
    Instant now{1h};
    Desk desk{"c1", DeskRules{}, now};
    JobId job;
};

TEST(Desk, SendsAnOrderUnderItsOwnName) {
    Site site;
    const AllocationId id = site.want();
    const Submit order = site.expect<Submit>();
    EXPECT_EQ(order.key, "c1.1.1");
    EXPECT_FALSE(site.next());  // only one errand runs at a time
    site.done(Submitted{id, Submission::Accepted, "7", ""});
    EXPECT_EQ(site.phase(id), AllocationPhase::Pending);
}

TEST(Desk, LooksOncePerIntervalAndOnlyWhileThereIsSomething) {
    Site site;
    const AllocationId id = site.accepted();
    site.expect<Poll>();
    site.polled({site.row("7", "PENDING", "c1.1.1")});
    EXPECT_EQ(site.desk.hearsay(id), "PENDING (Resources)");
    EXPECT_FALSE(site.next());
    EXPECT_EQ(site.desk.wakeup(site.core.state), site.now + 20s);
    site.pass(20s - 1ms);
    EXPECT_FALSE(site.next());
    site.pass(1ms);
    site.expect<Poll>();
    site.polled({site.row("7", "COMPLETED", "c1.1.1")});
    EXPECT_FALSE(site.has(id));
}

TEST(Desk, LooksSoonOnceAWorkerFellSilentButTwiceInHalfAMinuteAtMost) {
    Site site;
    site.accepted();
    site.expect<Poll>();
    site.polled({site.row("7", "PENDING", "c1.1.1")});
    site.desk.hurry(site.now);
    EXPECT_EQ(site.desk.wakeup(site.core.state), site.now + 5s);
    for (const auto until_next : {5s, 25s, 5s, 25s, 20s, 20s}) {
        site.pass(until_next - 1ms);
        EXPECT_FALSE(site.next());
        site.pass(1ms);
        site.expect<Poll>();
        site.polled({site.row("7", "PENDING", "c1.1.1")});
    }
}

TEST(Desk, ARefusalIsAFailure) {
    Site site;
    const AllocationId id = site.want();
    site.expect<Submit>();
    site.done(Submitted{id, Submission::Refused, "", "Invalid partition"});
    EXPECT_FALSE(site.has(id));
    EXPECT_EQ(site.core.state.queues.at("gpu").failures, 1);
    EXPECT_EQ(site.desk.trouble(), "Invalid partition");
}

TEST(Desk, AnOrderThatMayHaveBeenSentIsLookedForFirst) {
    Site site;
    const AllocationId id = site.want();
    site.expect<Submit>();
    site.done(Submitted{id, Submission::Unknown, "", "Socket timed out"});
    for (int i = 0; i < 3; ++i) {
        site.expect<Poll>();
        site.done(Polled{fail(ErrorCode::Unavailable, "down")});
        EXPECT_FALSE(site.next());
        site.pass(20s);
    }
    site.expect<Poll>();  // the first answer is a minute after the order was sent
    site.polled({});
    site.expect<Submit>();
    EXPECT_EQ(site.phase(id), AllocationPhase::Ordered);
    EXPECT_EQ(site.core.state.queues.at("gpu").failures, 0);
}

TEST(Desk, AnOrderThatWasSentAllTheSameIsFoundByItsName) {
    Site site;
    const AllocationId id = site.want();
    site.expect<Submit>();
    site.done(Submitted{id, Submission::Unknown, "", "Socket timed out"});
    site.expect<Poll>();
    site.polled({site.row("9", "PENDING", "c1.1.1")});
    EXPECT_EQ(site.phase(id), AllocationPhase::Pending);
    EXPECT_EQ(site.core.state.allocations.at(id).slurm_job, "9");
}

TEST(Desk, ARestartedRolldLooksBeforeItOrders) {
    Site site;
    const AllocationId id = site.want();
    site.core.tell(core::Started{});
    site.desk = Desk("c1", DeskRules{}, site.now);
    site.expect<Poll>();
    site.polled({});
    EXPECT_FALSE(site.next());
    site.pass(60s);
    site.expect<Poll>();
    site.polled({});
    EXPECT_EQ(site.expect<Submit>().allocation, id);
}

TEST(Desk, WhatWasSentTwiceIsGivenBackOnce) {
    Site site;
    site.accepted();
    site.expect<Poll>();
    site.polled({site.row("7", "RUNNING", "c1.1.1"), site.row("8", "PENDING", "c1.1.1")});
    EXPECT_EQ(site.expect<Cancel>().slurm_job, "8");
}

TEST(Desk, GivesBackWhatStateDoesNotHoldButNothingOfOthers) {
    Site site;
    site.accepted();
    site.expect<Poll>();
    site.polled({site.row("7", "RUNNING", "c1.1.1"), site.row("3", "PENDING", "c1.1.9"),
                 site.row("4", "RUNNING", "c2.1.9"), site.row("5", "COMPLETED", "c1.1.8")});
    const Cancel stray = site.expect<Cancel>();
    EXPECT_EQ(stray.slurm_job, "3");
    EXPECT_EQ(stray.key, "c1.1.9");
    site.done(Cancelled{stray.key, ""});
    EXPECT_FALSE(site.next());
}

// slurmctld may queue an order minutes after it left the order unanswered, when rolld has given the
// order up.
TEST(Desk, LooksForWhatMayStillTurnUp) {
    Site site;
    const AllocationId id = site.want();
    site.expect<Submit>();
    site.core.tell(core::Cancel{site.job, ""});
    site.done(Submitted{id, Submission::Unknown, "", "Socket timed out"});
    while (site.has(id)) {
        site.expect<Poll>();
        site.polled({});
        site.pass(20s);
    }
    site.expect<Poll>();
    site.polled({site.row("7", "RUNNING", "c1.1.1")});
    EXPECT_EQ(site.expect<Cancel>().slurm_job, "7");
    site.done(Cancelled{"c1.1.1", ""});
    site.pass(20s);
    site.expect<Poll>();
    site.polled({});
    site.pass(10min);
    site.expect<Poll>();  // the last poll
    site.polled({});
    site.pass(20s);
    EXPECT_FALSE(site.next());
    EXPECT_FALSE(site.desk.wakeup(site.core.state));
}

TEST(Desk, AJobIdThatSlurmGaveOutAgainIsNotOurs) {
    Site site;
    const AllocationId id = site.accepted();
    for (int i = 0; i < 4; ++i) {
        site.expect<Poll>();
        site.polled({site.row("7", "RUNNING", "somebody else's")});
        site.pass(20s);
    }
    EXPECT_FALSE(site.has(id));  // gone, because the job that now has its id has another name
}

TEST(Desk, WhatSqueueLeavesOutOnceIsNotGone) {
    Site site;
    const AllocationId id = site.accepted();
    for (int i = 0; i < 8; ++i) {
        site.expect<Poll>();
        site.polled(i % 3 == 2 ? std::vector{site.row("7", "PENDING", "c1.1.1")}
                               : std::vector<QueueRow>{});
        site.pass(20s);
        EXPECT_TRUE(site.has(id));
    }
}

TEST(Desk, ErrorsOfSqueueSayNothing) {
    Site site;
    const AllocationId id = site.accepted();
    for (int i = 0; i < 100; ++i) {
        site.expect<Poll>();
        site.done(Polled{fail(ErrorCode::Unavailable, "Unable to contact slurm controller")});
        site.pass(20s);
    }
    EXPECT_TRUE(site.has(id));
}

TEST(Desk, GivesBackAtOnceAndAgain) {
    Site site;
    site.accepted();
    site.core.tell(core::Cancel{site.job, ""});
    const Cancel cancel = site.expect<Cancel>();
    EXPECT_EQ(cancel.slurm_job, "7");
    EXPECT_EQ(cancel.key, "c1.1.1");
    site.done(Cancelled{"c1.1.1", "timed out"});
    site.expect<Poll>();
    site.polled({site.row("7", "PENDING", "c1.1.1")});
    EXPECT_FALSE(site.next());
    site.pass(30s);
    site.expect<Cancel>();
}

TEST(Desk, AnOrderNeverSentIsWithdrawnWithoutSlurm) {
    Site site;
    const AllocationId id = site.want();
    site.core.tell(core::Cancel{site.job, ""});
    EXPECT_TRUE(site.has(id));
    site.expect<Poll>();  // the first poll of this rolld, which looks for unknown jobs
    EXPECT_FALSE(site.has(id));
    EXPECT_EQ(site.core.state.queues.at("gpu").failures, 0);
}

TEST(Desk, AnUnwantedOrderThatMayHaveBeenSentIsWatchedUntilItIsSurelyNot) {
    Site site;
    const AllocationId id = site.want();
    site.expect<Submit>();
    site.core.tell(core::Cancel{site.job, ""});
    site.done(Submitted{id, Submission::Unknown, "", "Socket timed out"});
    for (int i = 0; i < 4; ++i) {
        EXPECT_TRUE(site.has(id));
        site.expect<Poll>();
        site.polled({});
        site.pass(20s);
    }
    EXPECT_FALSE(site.has(id));
}

// If this were not known, nobody would count the silence of the last workers, and their jobs would
// never continue.
TEST(Desk, KnowsWhenOnlyWorkersOfEndedAllocationsAreLeft) {
    Site site;
    const AllocationId id = site.accepted();
    EXPECT_FALSE(site.desk.only_gone_are_left(site.core.state));
    site.core.tell(core::WorkerHello{"n1", "s", 8, 8, core::Pilot{id, 1, "7", {}}});
    site.expect<Poll>();
    site.polled({site.row("7", "RUNNING", "c1.1.1")});
    EXPECT_FALSE(site.desk.only_gone_are_left(site.core.state));
    site.pass(20s);
    site.expect<Poll>();
    site.polled({site.row("7", "NODE_FAIL", "c1.1.1")});
    EXPECT_TRUE(site.has(id));
    EXPECT_TRUE(site.desk.only_gone_are_left(site.core.state));
    site.core.join("own", 2);
    EXPECT_FALSE(site.desk.only_gone_are_left(site.core.state));
}

TEST(Desk, StatesThatSayNothingLeaveThingsAsTheyAre) {
    Site site;
    const AllocationId id = site.accepted();
    for (const char* state : {"COMPLETING", "STAGE_OUT", "NEWLY_INVENTED"}) {
        site.expect<Poll>();
        site.polled({site.row("7", state, "c1.1.1")});
        EXPECT_EQ(site.phase(id), AllocationPhase::Pending) << state;
        site.pass(20s);
    }
}

TEST(Order, LeavesOutMachinesThatPilotsFailedOn) {
    Site site;
    for (const char* node : {"gpu7.a3", "gpu8.a4", "own"})
        site.core.tell(core::WorkerHello{node, node, 1, 0});
    for (const char* machine : {"gpu7", "own", "gpu8"}) {
        core::apply(site.core.state,
                    core::MachineExcluded{machine, site.core.now + 1h, "it failed", site.core.now});
    }
    site.core.tell(core::Drain{"gpu8.a4", false});
    site.want();
    EXPECT_EQ(site.expect<Submit>().queue.sbatch_args,
              (std::vector<std::string>{"--exclude=gpu7"}));
}

}  // namespace
}  // namespace roll::pilots
