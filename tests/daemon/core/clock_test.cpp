// The system clock is set. Durations continue as before, and wall clock times keep their value.
#include "tests/daemon/core/site.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

class Step : public testing::TestWithParam<milliseconds> {
  protected:
    Step() { desk.join("n", 4); }
    static void step(Desk& desk) {
        desk.now += GetParam();
        desk.tell(Tick{GetParam()});
    }
    void step() { step(desk); }

    Desk desk;
    spec::JobSpec spec = wants(1, 1);
};

TEST_P(Step, EndsNoJobEarlyAndNoneLate) {
    spec.resources.time = 10min;
    const JobId id = desk.submit(spec);
    desk.tell(MemberStarted{desk.worker_of(id), desk.attempt(id)});
    desk.pass(4min);
    step();
    EXPECT_EQ(next_wakeup(desk.state, desk.now), desk.now + 6min);
    desk.pass(6min - 1ms);
    EXPECT_EQ(desk.job(id).attempt->phase, AttemptPhase::Running);
    desk.pass(1ms);
    EXPECT_EQ(desk.job(id).attempt->phase, AttemptPhase::Stopping);
    EXPECT_EQ(desk.job(id).attempt->reason, "reached its time limit");
}

TEST_P(Step, LeavesABackOffAsLongAsItWas) {
    spec.retry.backoff = 60s;
    const JobId id = desk.submit(spec);
    desk.exit(id, Outcome::Infra, 1);
    desk.pass(20s);
    step();
    desk.pass(39s);
    EXPECT_EQ(desk.job(id).phase, JobPhase::Queued);
    desk.pass(1s);
    EXPECT_EQ(desk.job(id).phase, JobPhase::Running);
}

TEST_P(Step, LeavesAnExclusionAsLongAsItWas) {
    desk.join("other", 4);
    apply(desk.state, MachineExcluded{"n", desk.now + 24h, "it failed", desk.now});
    desk.pass(20h);
    step();
    desk.pass(4h - 1s);
    EXPECT_TRUE(desk.state.machines.at("n").excluded_until);
    desk.pass(1s);
    EXPECT_TRUE(desk.state.machines.empty());
}

TEST_P(Step, ChangesNoUse) {
    spec.resources.gpus_per_node = 0;
    spec.resources.time = 2h;
    const JobId id = desk.submit(spec);
    desk.pass(30min);
    step();
    desk.pass(30min);
    EXPECT_EQ(desk.job(id).attempt->placed_at, desk.now - 1h);
    desk.exit(id, Outcome::Done);
    EXPECT_EQ(desk.job(id).past.front().ended_at - desk.job(id).past.front().placed_at, 1h);
}

TEST_P(Step, LeavesAnIdleAllocationAsLongAsItHad) {
    Site site;
    site.prove();
    site.pass(4min);
    step(site);
    // The allocation ends earlier, because Slurm's end is a wall clock time.
    if (GetParam() > 30min) return;
    site.pass(59s);
    EXPECT_FALSE(site.at(1).releasing);
    site.pass(1s);
    EXPECT_TRUE(site.at(1).releasing);
}

TEST_P(Step, MovesNoBeginAndNoDeadline) {
    spec.begin = desk.now + 2h;
    spec.deadline = desk.now + 200h;
    const JobId id = desk.submit(spec);
    const Time begin = *spec.begin;
    step();
    EXPECT_EQ(desk.job(id).spec.begin, begin);
    EXPECT_EQ(desk.job(id).spec.deadline, spec.deadline);
    EXPECT_EQ(desk.job(id).phase, desk.now >= begin ? JobPhase::Running : JobPhase::Queued);
}

INSTANTIATE_TEST_SUITE_P(Steps, Step, testing::Values(1h, -30min, 24h, -50min));

}  // namespace
}  // namespace roll::core
