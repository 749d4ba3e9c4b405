// Fair share and quotas.
#include <cmath>

#include "common/spec/schema/array.hpp"
#include "daemon/core/placement/limits.hpp"
#include "daemon/core/state/decay.hpp"
#include "tests/daemon/core/shop.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

TEST(Decay, IsAHalfToThePowerOfTheTime) {
    constexpr double kOne = 4294967296.0;
    for (const auto& [elapsed, half] :
         std::vector<std::pair<Milliseconds, Milliseconds>>{{0ms, 1h},
                                                            {1h, 1h},
                                                            {2h, 1h},
                                                            {1ms, 1h},
                                                            {17min, 1h},
                                                            {59min, 1h},
                                                            {5h, 7h},
                                                            {40h, 1h}}) {
        const double exact = std::exp2(-double(elapsed.count()) / double(half.count()));
        EXPECT_NEAR(double(decay_factor(elapsed, half)) / kOne, exact, 2e-7);
        const double used = exact * 1e12 + 30 * double(half.count()) / std::log(2) * (1 - exact);
        EXPECT_NEAR(double(decayed(1'000'000'000'000, 30, elapsed, half)), used, used * 1e-6 + 2);
    }
    EXPECT_EQ(decayed(5, 100, 1h, 0ms), 5) << "no half-life: nothing is counted";
}

TEST(Decay, InManyStepsIsAsInOne) {
    std::int64_t used = 0;
    for (int i = 0; i < 600; ++i) used = decayed(used, 40, 1s, 10min);
    EXPECT_NEAR(double(used), double(decayed(0, 40, 10min, 10min)), double(used) * 1e-4);
}

spec::Policy two_users() {
    spec::Policy policy;
    policy.half_life = 1h;
    policy.users["ann"].share = 3;
    return policy;
}

// Runs the shop while both users always have queued jobs. Adds up each user's decayed use in
// `used`, independently of State.
void run_backlog(Shop& shop, std::chrono::minutes for_so_long,
                 std::map<std::string, double>& used) {
    const Time end = shop.desk.now + for_so_long;
    const auto keep_queued = [&] {
        std::map<std::string, int> queued{{"ann", 0}, {"bob", 0}};
        for (const auto& [group, line] : shop.desk.state.index.ready)
            queued[group.user] += static_cast<int>(line.by_priority.size());
        for (auto& [user, count] : queued) {
            for (; count < 10; ++count)
                shop.submit(wants(1, shop.between(1, 2)), std::chrono::minutes(shop.between(2, 12)),
                            user);
        }
    };
    while (shop.desk.now < end) {
        keep_queued();
        shop.run_to(shop.desk.now + 1min);
        for (auto& [user, sum] : used) sum *= std::exp2(-1.0 / 60);
        for (const JobId id : shop.desk.state.index.running) {
            const Job& job = shop.desk.job(id);
            used[job.user] += job.spec.resources.slots_per_node;
        }
    }
}

TEST(FairShare, TwoUsersAtThreeToOneEndWithinFivePercentAfterSixHalfLives) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
        Shop shop(seed);
        shop.desk.careful = false;
        shop.desk.tell(SetPolicy{two_users()});
        for (const char* node : {"a", "b", "c", "d"}) shop.desk.join(node, 8);
        // Bob had all resources before.
        std::map<std::string, double> used{{"ann", 0.0}, {"bob", 6000.0}};
        State& state = shop.desk.state;
        state.use[{"", "bob"}].decayed = std::int64_t{6000} * 60'000;
        state.use[{"", "bob"}].at = shop.desk.now;
        run_backlog(shop, 6h, used);
        EXPECT_NEAR(used["ann"] / used["bob"], 3.0, 0.15) << "seed " << seed;
    }
}

TEST(FairShare, GoesByAccountsThenByTheirUsers) {
    Desk desk;
    spec::Policy policy;
    policy.half_life = 1h;
    policy.accounts["lab"].users = {"ann", "bob"};
    policy.accounts["team"].users = {"eve"};
    policy.accounts["team"].share = 2;
    desk.tell(SetPolicy{policy});
    desk.join("n", 3);
    std::map<std::string, int> started;
    const auto submit = [&](const std::string& user) {
        spec::JobSpec spec = wants(1, 1);
        spec.output = "/x-{id}";
        desk.tell(Drain{"n", true});
        desk.tell(Submit{user + std::to_string(desk.state.next_job), user, spec});
        return JobId{desk.state.next_job - 1};
    };
    for (int i = 0; i < 3; ++i)
        for (const char* user : {"ann", "ann", "bob", "eve"}) submit(user);
    desk.tell(Drain{"n", false});
    for (const JobId id : desk.state.index.running) ++started[desk.job(id).user];
    EXPECT_EQ(started["eve"], 2) << "her account has twice the share";
    EXPECT_EQ(started["ann"] + started["bob"], 1);
}

class Quotas : public testing::Test {
  protected:
    Quotas() {
        policy.accounts["all"].quota.gpus = 8;
        policy.accounts["lab"].parent = "all";
        policy.accounts["lab"].users = {"ann"};
        policy.accounts["lab"].quota.gpus = 4;
        policy.accounts["team"] = policy.accounts["lab"];
        policy.accounts["team"].users = {"bob"};
        policy.preempt = true;
        policy.min_run = 10min;
    }
    JobId submit(const std::string& user, int gpus, std::chrono::seconds limit = 0s) {
        spec::JobSpec spec = wants(1, 0, gpus);
        spec.resources.time = limit;
        spec.output = "/x-{id}";
        desk.tell(Submit{"k" + std::to_string(desk.state.next_job), user, spec});
        const JobId id{desk.state.next_job - 1};
        if (runs(id)) desk.tell(MemberStarted{desk.worker_of(id), desk.attempt(id)});
        return id;
    }
    void begin() {
        desk.tell(SetPolicy{policy});
        for (const char* node : {"a", "b"}) desk.join(node, 1, 8);
    }
    bool runs(JobId id) const { return desk.job(id).phase == JobPhase::Running; }
    std::string why(JobId id) const {
        const auto excess =
            Limits(desk.state, desk.now).excess(desk.job(id), desk.job(id).spec.resources);
        return excess ? excess->setting + ": " + excess->why : "";
    }
    spec::Policy policy;
    Desk desk;
};

TEST_F(Quotas, KeepWhatIsTooMuchAndNobodyElse) {
    begin();
    EXPECT_TRUE(runs(submit("ann", 4)));
    const JobId more = submit("ann", 1);
    EXPECT_FALSE(runs(more));
    EXPECT_EQ(why(more), "accounts.lab.gpus: account lab uses 4 of 4 GPUs, and it needs 1");
    EXPECT_TRUE(runs(submit("bob", 4))) << "it holds back nobody of another account";
    const JobId other = submit("eve", 8);
    EXPECT_TRUE(runs(other)) << "who is in no account has no quota";
}

TEST_F(Quotas, OfAParentHoldForAllOfItsAccounts) {
    policy.accounts["all"].quota.gpus = 6;
    begin();
    EXPECT_TRUE(runs(submit("ann", 4)));
    const JobId bob = submit("bob", 3);
    EXPECT_FALSE(runs(bob));
    EXPECT_EQ(why(bob), "accounts.all.gpus: account all uses 4 of 6 GPUs, and it needs 3");
    EXPECT_TRUE(runs(submit("bob", 2)));
}

TEST_F(Quotas, LendWhatIsIdleAndTakeItBack) {
    policy.accounts["lab"].quota.borrow_gpus = 4;
    begin();
    const JobId own = submit("ann", 4);
    desk.pass(1s);
    const JobId borrowed = submit("ann", 4);
    EXPECT_TRUE(runs(borrowed));
    EXPECT_FALSE(runs(submit("ann", 1))) << "borrowing has a limit";
    const JobId bob = submit("bob", 4);
    EXPECT_FALSE(runs(bob));
    EXPECT_EQ(desk.job(borrowed).attempt->phase, AttemptPhase::Running) << "min_run";
    desk.pass(10min);
    EXPECT_EQ(desk.job(borrowed).attempt->phase, AttemptPhase::Stopping);
    EXPECT_EQ(desk.job(own).attempt->phase, AttemptPhase::Running) << "only what was borrowed";
    desk.exit(borrowed, Outcome::Yielded, 75);
    EXPECT_TRUE(runs(bob));
}

// Only the array's limit blocks the job, so stopping other jobs would not help.
TEST_F(Quotas, AJobThatItsArraysLimitKeepsBackStopsNobody) {
    policy.preempt = true;
    policy.min_run = 0s;
    begin();
    spec::JobSpec spec = wants(1, 1, 1);
    spec.array = spec::parse_array("0-1%1").value();
    const JobId second = desk.submit(spec);
    const JobId first{second.value - 1};
    ASSERT_TRUE(runs(first));
    desk.tell(MemberStarted{desk.worker_of(first), desk.attempt(first)});
    desk.tell(SetPriority{second, 5});
    desk.pass(1s);
    EXPECT_EQ(desk.job(first).attempt->phase, AttemptPhase::Running);
}

TEST_F(Quotas, OfGpuHoursCountLimitsAndThenWhatWasUsed) {
    policy.accounts["lab"].quota.gpus = 8;
    policy.accounts["lab"].quota.gpu_hours = 10;
    begin();
    const JobId first = submit("ann", 4, 2h);
    EXPECT_TRUE(runs(first));
    const JobId second = submit("ann", 1, 3h);
    EXPECT_FALSE(runs(second)) << "8 of 10 are promised";
    EXPECT_FALSE(runs(submit("ann", 1))) << "no limit, no promise";
    desk.pass(1h);
    desk.exit(first, Outcome::Done);
    EXPECT_TRUE(runs(second)) << "4 were used";
    EXPECT_EQ((desk.state.use[{"lab", "ann"}].gpu_ms), 4 * 3'600'000);
}

TEST_F(Quotas, OfJobsRefuseASubmission) {
    policy.accounts["lab"].quota.jobs = 2;
    policy.users["*"].quota.jobs = 3;
    begin();
    submit("ann", 1);
    submit("ann", 9);
    const Error error = desk.refusal(Submit{"k", "ann", wants(1, 1)});
    EXPECT_EQ(error.code, ErrorCode::Refused);
    EXPECT_EQ(error.message, "account lab uses 2 of 2 jobs, and it needs 1");
    spec::JobSpec array = wants(1, 1);
    array.array = spec::parse_array("1-4").value();
    EXPECT_EQ(desk.refusal(Submit{"k", "eve", array}).message,
              "user eve uses 0 of 3 jobs, and it needs 4");
    desk.tell(Cancel{JobId{2}, "no"});
    EXPECT_EQ(desk.job(submit("ann", 1)).spec.account, "lab");
}

TEST_F(Quotas, AccountsAreForTheirUsers) {
    begin();
    spec::JobSpec spec = wants(1, 1);
    spec.account = "lab";
    EXPECT_EQ(desk.refusal(Submit{"k", "bob", spec}).code, ErrorCode::Refused);
    spec.account = "nowhere";
    EXPECT_EQ(desk.refusal(Submit{"k", "bob", spec}).code, ErrorCode::NotFound);
}

}  // namespace
}  // namespace roll::core
