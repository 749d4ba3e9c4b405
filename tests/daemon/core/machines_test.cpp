// Machines that keep failing.
#include "daemon/core/machines.hpp"

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
    // A job of its own is placed there, and its attempt fails through no fault of its own.
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
    EXPECT_EQ(desk.state.machines.at("bad").reason, "3 attempts of 3 jobs failed on it");
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

TEST(Machine, OfAPilotIsItsHost) {
    EXPECT_EQ(machine_of("gpu7.a12"), "gpu7");
    EXPECT_EQ(machine_of("gpu7.lab.ac.uk"), "gpu7.lab.ac.uk");
    EXPECT_EQ(machine_of("gpu7.a"), "gpu7.a");
}

}  // namespace
}  // namespace roll::core
