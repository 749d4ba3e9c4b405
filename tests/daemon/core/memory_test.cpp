// Tests jobs that ask for memory or CPUs of their nodes, and what ended attempts used.
#include "tests/daemon/core/desk.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kGibibyte = 1 << 30;

class Memory : public testing::Test {
  protected:
    WorkerId join(const std::string& node, int slots, std::int64_t gibibytes, int cpus) {
        WorkerHello hello{node, node + "-" + std::to_string(desk.state.next_worker), slots, 0};
        hello.memory = gibibytes * kGibibyte;
        hello.cpus = cpus;
        desk.tell(hello);
        return WorkerId{desk.state.next_worker - 1};
    }
    JobId submit(int nodes, std::int64_t gibibytes, int cpus = 0, std::chrono::seconds time = 0s) {
        spec::JobSpec spec = wants(nodes, 1);
        spec.resources.memory = gibibytes * kGibibyte;
        spec.resources.cpus = cpus;
        spec.resources.time = time;
        return desk.submit(spec);
    }
    bool runs(JobId id) const { return is_running(desk, id); }
    Desk desk;
};

TEST_F(Memory, IsNeverGivenTwice) {
    join("n", 8, 10, 8);
    const JobId one = submit(1, 6), small = submit(1, 4), two = submit(1, 6);
    EXPECT_TRUE(runs(one) && runs(small));
    EXPECT_FALSE(runs(two)) << "6 + 6 GiB of 10";
    desk.exit(small, Outcome::Done);
    EXPECT_FALSE(runs(two)) << "4 GiB are free";
    desk.exit(one, Outcome::Done);
    EXPECT_TRUE(runs(two));
}

TEST_F(Memory, CpusAreNeverGivenTwice) {
    join("n", 8, 0, 4);
    const JobId one = submit(1, 0, 3), three = submit(1, 0, 1), two = submit(1, 0, 2);
    EXPECT_TRUE(runs(one) && runs(three));
    EXPECT_FALSE(runs(two));
    desk.exit(one, Outcome::Done);
    EXPECT_TRUE(runs(two));
}

TEST_F(Memory, OfEachNodeOfAGangCounts) {
    join("a", 4, 8, 4);
    join("b", 4, 8, 4);
    join("c", 4, 2, 4);
    const JobId gang = submit(2, 5);
    ASSERT_TRUE(runs(gang));
    EXPECT_EQ(desk.job(gang).attempt->nodes, (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(runs(submit(1, 3)));
    EXPECT_FALSE(runs(submit(1, 4)));
}

TEST_F(Memory, AWorkerThatDoesNotTellItGetsNoJobThatAsksForIt) {
    desk.join("old", 4);
    const JobId asks = submit(1, 1), cpus = submit(1, 0, 1), plain = submit(1, 0);
    EXPECT_TRUE(runs(plain));
    EXPECT_FALSE(runs(asks) || runs(cpus));
    join("new", 4, 8, 4);
    EXPECT_EQ(desk.job(asks).attempt->nodes, std::vector<std::string>{"new"});
    EXPECT_TRUE(runs(cpus));
}

TEST_F(Memory, ALaterJobDoesNotTakeWhatTheFirstOneWaitsFor) {
    join("n", 8, 10, 8);
    const JobId holds = submit(1, 6, 0, 100s), first = submit(1, 8, 0, 100s);
    const JobId longer = submit(1, 3, 0, 1000s), beside = submit(1, 2, 0, 1000s);
    const JobId brief = submit(1, 2, 0, 30s);
    EXPECT_TRUE(runs(holds));
    EXPECT_FALSE(runs(first));
    EXPECT_FALSE(runs(longer)) << "10 - 3 GiB would not do for the first";
    EXPECT_TRUE(runs(beside)) << "10 - 2 GiB do";
    EXPECT_TRUE(runs(brief)) << "it ends before the first can start";
    desk.exit(holds, Outcome::Done);
    desk.exit(brief, Outcome::Done);
    EXPECT_TRUE(runs(first));
}

TEST_F(Memory, ASpareHoldsItToo) {
    join("a", 1, 4, 1);
    join("b", 1, 4, 1);
    spec::JobSpec spec = wants(1, 1);
    spec.resources.memory = 3 * kGibibyte;
    spec.resources.spares = 1;
    const JobId id = desk.submit(spec);
    ASSERT_TRUE(runs(id));
    const std::string node = desk.job(id).attempt->nodes.front();
    desk.exit(id, Outcome::Infra, 1);
    ASSERT_TRUE(runs(id)) << "it continues on its spare";
    EXPECT_NE(desk.job(id).attempt->nodes.front(), node);
    EXPECT_EQ(desk.job(id).attempt->places.front().memory, 3 * kGibibyte);
}

TEST_F(Memory, WhatAnAttemptUsedIsTheSumOfItsMembers) {
    const WorkerId a = join("a", 1, 4, 1), b = join("b", 1, 4, 1);
    const JobId id = submit(2, 1);
    const AttemptKey key = desk.attempt(id);
    desk.tell(
        MemberExited{a, key, Outcome::Done, 0, "", {}, {1000, 3 * kGibibyte, 5000, 10, 64, 1}});
    desk.tell(
        MemberExited{b, key, Outcome::Done, 0, "", {}, {500, 2 * kGibibyte, 7000, 20, 32, 2}});
    EXPECT_EQ(desk.job(id).past.at(0).usage, (Usage{1500, 3 * kGibibyte, 7000, 30, 96, 3}));
}

TEST_F(Memory, ANegativeAmountIsRefused) {
    const WorkerId n = join("n", 1, 4, 1);
    const JobId id = submit(1, 1);
    EXPECT_EQ(desk.refusal(MemberExited{n, desk.attempt(id), Outcome::Done, 0, "", {}, {-1}}).code,
              ErrorCode::InvalidArgument);
    WorkerHello hello{"m", "m", 1, 0};
    hello.memory = -1;
    EXPECT_EQ(desk.refusal(hello).code, ErrorCode::InvalidArgument);
    spec::JobSpec spec = wants(1, 3);
    spec.output = "/x-{id}";
    spec.resources.slots_per_rank = 2;
    EXPECT_EQ(desk.refusal(Submit{"k", "ann", spec}).message,
              "resources.slots_per_rank is 2; allowed: a divisor of slots_per_node 3");
}

}  // namespace
}  // namespace roll::core
