// The order of the queue, in many small worlds. Backfill never delays the first job, no job waits
// for ever, and a preempted job has run for min_run.
#include "daemon/core/placement/find_places.hpp"
#include "daemon/core/placement/queue.hpp"
#include "daemon/core/placement/reservation.hpp"
#include "tests/daemon/core/shop.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

Shop busy_shop(unsigned seed, bool with_limits) {
    Shop shop(seed);
    for (int i = shop.between(2, 5); i > 0; --i)
        shop.desk.join("n" + std::to_string(i), shop.between(1, 4), shop.between(0, 2));
    for (int i = 0; i < 40; ++i) {
        spec::JobSpec spec = wants(shop.between(1, 3), shop.between(1, 3), shop.between(0, 1));
        const auto limit = std::chrono::minutes(shop.between(1, 60));
        if (with_limits || shop.between(0, 2) > 0) spec.resources.time = limit;
        shop.submit(spec, limit);
    }
    return shop;
}

// Returns the first job that only missing capacity blocks; nullopt if there is none.
std::optional<JobId> first_waiting(const Desk& desk) {
    for (const JobId id : due_jobs(desk.state, desk.now)) {
        if (!find_places(desk.job(id).spec.resources, all_capacity(desk.state, desk.now)).empty())
            return id;
    }
    return std::nullopt;
}

void run_until_started(Shop& shop, JobId id) {
    for (int i = 0; i < 1000 && !shop.has_started(id); ++i) shop.run_to(*shop.next_end());
    ASSERT_TRUE(shop.has_started(id));
}

TEST(Backfill, NeverMovesTheFirstJobBack) {
    int pairs = 0;
    int backfilled = 0;
    for (unsigned seed = 1; seed <= 300; ++seed) {
        Shop with = busy_shop(seed, true);
        with.run_to(with.desk.now + 1h);
        const auto first = first_waiting(with.desk);
        if (!first) continue;
        Shop without = with;
        spec::Policy policy;
        policy.backfill = false;
        without.desk.tell(SetPolicy{policy});
        run_until_started(with, *first);
        run_until_started(without, *first);
        ASSERT_LE(with.start_of(*first), without.start_of(*first)) << "seed " << seed;
        ++pairs;
        for (const auto& [id, job] : with.desk.state.jobs)
            backfilled += id > *first && job.attempts > without.desk.job(id).attempts;
    }
    EXPECT_GT(pairs, 200);
    EXPECT_GT(backfilled, 200);
}

// Jobs end before their limits, and some have no limit. The reservation must hold nevertheless.
TEST(Backfill, KeepsTheReservationThatTheFirstJobHad) {
    int promises = 0;
    for (unsigned seed = 1; seed <= 300; ++seed) {
        Shop shop = busy_shop(seed, false);
        for (auto& [id, length] : shop.length) length = length * shop.between(30, 100) / 100;
        shop.run_to(shop.desk.now + 40min);
        const auto first = first_waiting(shop.desk);
        if (!first) continue;
        std::vector<Holder> held;
        for (const JobId id : shop.desk.state.index.running) {
            const Job& job = shop.desk.job(id);
            held.push_back({latest_end(job, shop.desk.now), job.attempt->places});
        }
        const Reservation promise(shop.desk.job(*first).spec.resources,
                                  free_capacity(shop.desk.state, shop.desk.now),
                                  all_capacity(shop.desk.state, shop.desk.now), held);
        if (!promise.at()) continue;
        ++promises;
        shop.run_to(*promise.at());
        ASSERT_TRUE(shop.has_started(*first)) << "seed " << seed;
    }
    EXPECT_GT(promises, 100);
}

TEST(Backfill, LetsAShortJobPastAndALongOneNot) {
    Desk desk;
    desk.join("n", 2);
    spec::JobSpec limited = wants(1, 1);
    limited.resources.time = 1h;
    desk.submit(limited);
    const JobId wide = desk.submit(wants(1, 2));
    limited.resources.time = 2h;
    const JobId longer = desk.submit(limited);
    limited.resources.time = 30min;
    const JobId shorter = desk.submit(limited);
    EXPECT_EQ(desk.job(wide).phase, JobPhase::Queued);
    EXPECT_EQ(desk.job(longer).phase, JobPhase::Queued);
    EXPECT_EQ(desk.job(shorter).phase, JobPhase::Running);
}

TEST(Backfill, LetsAnyJobWhereTheFirstFitsBesideIt) {
    Desk desk;
    desk.join("small", 1);
    desk.join("large", 4);
    const JobId running = desk.submit(wants(1, 3));
    const JobId wide = desk.submit(wants(1, 4));
    const JobId beside = desk.submit(wants(1, 1));
    EXPECT_EQ(desk.job(beside).phase, JobPhase::Running);
    EXPECT_EQ(desk.state.workers.at(desk.worker_of(beside)).node, "small");
    const JobId in_the_way = desk.submit(wants(1, 1));
    EXPECT_EQ(desk.job(in_the_way).phase, JobPhase::Queued);
    desk.exit(running, Outcome::Done);
    EXPECT_EQ(desk.job(wide).phase, JobPhase::Running);
}

// docs/scheduling.md: if every attempt is limited to L, a job starts at most starve_after + (n + 1)
// (L + slack) after it is ready, where n jobs were ready before it.
TEST(Starving, EveryJobStartsWithinTheStatedBound) {
    for (unsigned seed = 1; seed <= 60; ++seed) {
        Shop shop(seed);
        spec::Policy policy;
        policy.starve_after = std::chrono::minutes(shop.between(10, 60));
        shop.desk.tell(SetPolicy{policy});
        shop.desk.join("a", 2);
        shop.desk.join("b", 2);
        constexpr auto kLimit = 20min;
        std::map<JobId, Time> ready;
        for (int minute = 0; minute < 240; ++minute) {
            // Many jobs, most of them with a high priority.
            for (int i = shop.between(0, 1); i > 0; --i) {
                spec::JobSpec spec = wants(shop.between(1, 2), shop.between(1, 2));
                spec.priority = shop.between(0, 9) == 0 ? 0 : shop.between(1, 1000);
                spec.resources.time = kLimit;
                ready[shop.submit(spec, std::chrono::minutes(shop.between(1, 20)))] = shop.desk.now;
            }
            shop.run_to(shop.desk.now + 1min);
        }
        while (const auto end = shop.next_end()) shop.run_to(*end);
        int before = 0;
        for (const auto& [id, since] : ready) {
            const auto bound = policy.starve_after + (before++ + 1) * (kLimit + kBackfillSlack);
            ASSERT_TRUE(shop.has_started(id));
            ASSERT_LE(shop.start_of(id) - since, bound) << "seed " << seed << " job " << id.value;
        }
    }
}

TEST(Starving, ComesBeforePriority) {
    Desk desk;
    spec::Policy policy;
    policy.starve_after = 1h;
    desk.tell(SetPolicy{policy});
    desk.join("n", 1);
    const JobId running = desk.submit(wants(1, 1));
    const JobId low = desk.submit(wants(1, 1));
    desk.pass(30min);
    spec::JobSpec high = wants(1, 1);
    high.priority = 100;
    const JobId later = desk.submit(high);
    EXPECT_EQ(due_jobs(desk.state, desk.now), (std::vector{later, low}));
    EXPECT_EQ(next_wakeup(desk.state, desk.now), desk.now + 30min);
    desk.pass(30min);
    EXPECT_EQ(due_jobs(desk.state, desk.now), (std::vector{low, later}));
    desk.exit(running, Outcome::Done);
    EXPECT_EQ(desk.job(low).phase, JobPhase::Running);
}

class Preempt : public testing::Test {
  protected:
    Preempt() {
        spec::Policy policy;
        policy.preempt = true;
        policy.min_run = 10min;
        desk.tell(SetPolicy{policy});
        desk.join("a", 2);
        desk.join("b", 2);
    }
    JobId run(int priority, int slots) {
        spec::JobSpec spec = wants(1, slots);
        spec.priority = priority;
        const JobId id = desk.submit(spec);
        if (desk.job(id).attempt) desk.tell(MemberStarted{desk.worker_of(id), desk.attempt(id)});
        return id;
    }
    bool stops(JobId id) const { return desk.job(id).attempt->phase == AttemptPhase::Stopping; }
    Desk desk;
};

TEST_F(Preempt, StopsTheLowestPriorityOnceItHasRunItsTime) {
    const JobId one = run(1, 2);
    const JobId zero = run(0, 2);
    desk.pass(9min);
    const JobId high = run(5, 2);
    EXPECT_FALSE(stops(zero));
    EXPECT_EQ(next_wakeup(desk.state, desk.now), desk.now + 1min);
    desk.pass(1min);
    EXPECT_TRUE(stops(zero));
    EXPECT_FALSE(stops(one)) << "no more than is needed";
    desk.exit(zero, Outcome::Yielded, 75);
    EXPECT_EQ(desk.job(high).phase, JobPhase::Running);
    EXPECT_EQ(desk.job(zero).phase, JobPhase::Queued);
    EXPECT_EQ(desk.job(zero).preemptions, 1);
    EXPECT_EQ(desk.job(zero).infra_failures, 0);
}

TEST_F(Preempt, LeavesEqualPriorityAndWhatWouldNotHelpAlone) {
    const JobId low = run(0, 1);
    const JobId high = run(9, 2);
    const JobId other = run(9, 1);
    desk.pass(1h);
    run(5, 2);  // stopping `low` would free only one slot, because `other` has the second
    EXPECT_FALSE(stops(low));
    EXPECT_FALSE(stops(high));
    EXPECT_FALSE(stops(other));
}

TEST_F(Preempt, AJobThatWasStoppedRunsItsTimeAgainBeforeTheNext) {
    const JobId low = run(0, 2);
    run(9, 2);
    desk.pass(10min);
    const JobId high = run(5, 2);
    ASSERT_TRUE(stops(low));
    desk.exit(low, Outcome::Stopped, 143);
    desk.exit(high, Outcome::Done);
    ASSERT_EQ(desk.job(low).phase, JobPhase::Running);
    desk.tell(MemberStarted{desk.worker_of(low), desk.attempt(low)});
    run(5, 2);
    desk.pass(10min - 1ms);
    EXPECT_FALSE(stops(low));
    desk.pass(1ms);
    EXPECT_TRUE(stops(low));
}

TEST_F(Preempt, BudgetEndsIt) {
    spec::JobSpec spec = wants(1, 2);
    spec.retry.preempted = 0;
    const JobId low = desk.submit(spec);
    desk.tell(MemberStarted{desk.worker_of(low), desk.attempt(low)});
    run(9, 2);
    desk.pass(10min);
    const JobId high = run(5, 2);
    desk.exit(low, Outcome::Stopped, 143);
    EXPECT_EQ(desk.job(low).phase, JobPhase::Failed);
    EXPECT_EQ(desk.job(low).reason, "preempted by job " + std::to_string(high.value));
}

}  // namespace
}  // namespace roll::core
