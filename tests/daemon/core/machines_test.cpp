// Machines on which attempts keep failing.
#include "daemon/core/facts/machines.hpp"

#include "common/spec/schema/array.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

class Lemons : public testing::Test {
  protected:
    Lemons() {
        desk.join("bad", 1);
        desk.join("good", 4);
        spec = wants(1, 1);
        spec.retry = {.infra = 100, .app = 0};
        spec.retry.backoff = 1s;
    }
    // Places a new job on the node "bad", where its attempt fails as an infra failure.
    void fail_on_bad(int exit_code = 137) {
        const JobId id = desk.submit(spec);
        ASSERT_EQ(desk.job(id).attempt->nodes, std::vector<std::string>{"bad"});
        desk.exit(id, Outcome::Infra, exit_code, "it broke");
        desk.tell(Cancel{id, ""});
    }
    bool excluded() const {
        const auto found = desk.state.machines.find("bad");
        return found != desk.state.machines.end() && found->second.excluded_until.has_value();
    }
    Desk desk;
    spec::JobSpec spec;
};

TEST_F(Lemons, AreLeftOutForAWhileAfterFaultsOfSeveralJobs) {
    fail_on_bad();
    fail_on_bad();
    EXPECT_FALSE(excluded());
    fail_on_bad();
    ASSERT_TRUE(excluded());
    EXPECT_EQ(desk.state.machines.at("bad").reason, "3 faults while the node ran 3 jobs");
    const JobId id = desk.submit(spec);
    EXPECT_EQ(desk.job(id).attempt->nodes, std::vector<std::string>{"good"});
    EXPECT_EQ(next_wakeup(desk.state, desk.now), desk.now + 24h);
    desk.pass(24h);
    EXPECT_FALSE(excluded());
    const JobId back = desk.submit(spec);
    EXPECT_EQ(desk.job(back).attempt->nodes, std::vector<std::string>{"bad"});
}

TEST_F(Lemons, AreUsedAgainWhenSomebodySaysSo) {
    for (int i = 0; i < 3; ++i) fail_on_bad();
    ASSERT_TRUE(excluded());
    desk.tell(Drain{"bad", false});
    EXPECT_FALSE(excluded());
    EXPECT_TRUE(desk.state.machines.empty());
}

TEST_F(Lemons, OneJobAloneMayBeToBlameItself) {
    spec.resources.slots_per_node = 1;
    const JobId id = desk.submit(spec);
    for (int i = 0; i < 6; ++i) {
        desk.exit(id, Outcome::Infra, 137, "it broke");
        desk.pass(1h - 50min * (i == 0));
    }
    EXPECT_FALSE(excluded());
}

TEST_F(Lemons, FaultsOfLongAgoAreForgiven) {
    fail_on_bad();
    fail_on_bad();
    desk.pass(2h);
    fail_on_bad();
    EXPECT_FALSE(excluded());
}

TEST_F(Lemons, TheLastMachineIsKept) {
    desk.tell(Drain{"good", true});
    for (int i = 0; i < 5; ++i) fail_on_bad();
    EXPECT_FALSE(excluded());
    desk.tell(Drain{"good", false});
    EXPECT_TRUE(excluded()) << "now there is another";
}

TEST_F(Lemons, ACheckOfTheMachineItselfIsCertain) {
    fail_on_bad(kExitUnhealthy);
    EXPECT_TRUE(excluded());
    EXPECT_EQ(desk.state.machines.at("bad").reason, "its check failed");
}

TEST_F(Lemons, AWorkerThatIsAskedToEndHasNoFault) {
    const JobId id = desk.submit(spec);
    desk.tell(Drain{"bad", true});
    desk.exit(id, Outcome::Infra, 137, "roll-worker was asked to end");
    EXPECT_TRUE(desk.state.machines.empty());
}

TEST_F(Lemons, AJobsOwnOutputIsNoFaultOfTheMachine) {
    for (int i = 0; i < 6; ++i) fail_on_bad(kExitRefused);
    EXPECT_TRUE(desk.state.machines.empty());
}

TEST_F(Lemons, AnArrayCountsAsOneJob) {
    spec.resources.slots_per_node = 1;
    spec.array = spec::Array{};
    spec.array->indices = "0-4";
    desk.tell(Drain{"good", true});
    desk.submit(spec);
    desk.tell(Drain{"good", false});
    for (int i = 0; i < 5; ++i) {
        const JobId id = *desk.state.index.running.begin();
        desk.exit(id, Outcome::Infra, 137, "it broke");
        desk.tell(Cancel{id, ""});
    }
    EXPECT_FALSE(excluded());
}

// A cluster of eight nodes, full of jobs that are not retried.
class PowerCut : public testing::Test {
  protected:
    PowerCut() {
        desk.careful = false;
        spec.retry = {.infra = 0, .app = 0};
        for (int i = 0; i < 8; ++i) join(i);
        fill();
    }
    void join(int i) {
        const std::string node = "n" + std::to_string(i);
        desk.tell(WorkerHello{node, node + "." + std::to_string(++sessions), 6, 0});
    }
    void fill() {
        for (int i = 0; i < 48 && desk.state.index.running.size() < 48; ++i) desk.submit(spec);
    }
    // Advances the clock and fills the cluster with jobs again.
    void go_on() {
        desk.pass(5min);
        fill();
    }
    std::size_t excluded() const {
        return static_cast<std::size_t>(std::ranges::count_if(
            desk.state.machines,
            [](const auto& m) { return m.second.excluded_until.has_value(); }));
    }
    Desk desk;
    spec::JobSpec spec = wants(1, 1);
    int sessions = 0;
};

TEST_F(PowerCut, ExcludesNobodyHoweverOftenItComes) {
    for (int cut = 0; cut < 4; ++cut) {
        for (int i = 0; i < 8; ++i) {
            join(i);
            desk.pass(2s);
        }
        EXPECT_EQ(excluded(), 0u) << "cut " << cut;
        go_on();
    }
}

TEST_F(PowerCut, WorkersThatAreSilentAtOnceAreNotExcludedEither) {
    for (int cut = 0; cut < 4; ++cut) {
        for (const auto& [id, worker] : std::map(desk.state.workers))
            desk.tell(WorkerGone{id, "not heard for 35 ticks"});
        for (int i = 0; i < 8; ++i) join(i);
        EXPECT_EQ(excluded(), 0u) << "cut " << cut;
        go_on();
    }
}

TEST_F(PowerCut, ARestartOfOneWorkerCountsOnce) {
    for (int restart = 1; restart <= 3; ++restart) {
        EXPECT_EQ(excluded(), 0u) << restart;
        join(3);
        if (restart < 3) go_on();
    }
    EXPECT_EQ(excluded(), 1u) << "three restarts within an hour, with jobs";
}

TEST_F(PowerCut, JobsThatFailEverywhereAtOnceExcludeNobody) {
    for (const JobId id : std::set(desk.state.index.running)) desk.exit(id, Outcome::Infra, 137);
    desk.pass(1s);
    EXPECT_EQ(excluded(), 0u);
}

TEST_F(PowerCut, JobsThatFailOnFewMachinesExcludeThose) {
    for (const JobId id : std::set(desk.state.index.running)) {
        if (desk.job(id).attempt->nodes.front() < "n2") desk.exit(id, Outcome::Infra, 137);
    }
    EXPECT_EQ(excluded(), 2u);
}

TEST_F(PowerCut, ExclusionsAreClearedByOneCommand) {
    for (int restart = 0; restart < 3; ++restart) {
        for (const int i : {2, 3}) {
            join(i);
            go_on();
        }
    }
    ASSERT_EQ(excluded(), 2u);
    desk.tell(StopDispatch{});
    EXPECT_EQ(excluded(), 0u);
}

TEST_F(Lemons, AnExcludedMachineIsUsedWhereNothingElseCouldHoldAJob) {
    desk.join("bad.a1", 1, 4);  // the only node with GPUs
    for (int i = 0; i < 3; ++i) fail_on_bad();
    ASSERT_TRUE(excluded());
    const JobId plain = desk.submit(spec);
    EXPECT_EQ(desk.job(plain).attempt->nodes, std::vector<std::string>{"good"});
    EXPECT_TRUE(excluded());
    const JobId id = desk.submit(wants(1, 1, 4));
    ASSERT_TRUE(desk.job(id).attempt) << "no other node has GPUs";
    EXPECT_EQ(desk.job(id).attempt->nodes, std::vector<std::string>{"bad.a1"});
    EXPECT_FALSE(excluded());
}

TEST(Machine, OfAPilotIsItsHost) {
    EXPECT_EQ(machine_of("gpu7.a12"), "gpu7");
    EXPECT_EQ(machine_of("gpu7.lab.ac.uk"), "gpu7.lab.ac.uk");
    EXPECT_EQ(machine_of("gpu7.a"), "gpu7.a");
}

}  // namespace
}  // namespace roll::core
