// Tests requests of a job other than whole slots and GPUs: a share of a GPU, variants, network
// segments, NUMA nodes and spares.
#include "daemon/core/placement/limits.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

class Shapes : public testing::Test {
  protected:
    bool runs(JobId id) const { return desk.job(id).phase == JobPhase::Running; }
    const Place& place(JobId id, std::size_t i = 0) const {
        return desk.job(id).attempt.value().places.at(i);
    }
    WorkerId join(const std::string& node, int slots, int gpus, const std::string& segment,
                  std::vector<int> numa = {}) {
        desk.tell(WorkerHello{node, node + "/1", slots, gpus, {}, 0, segment, std::move(numa)});
        return WorkerId{desk.state.next_worker - 1};
    }
    std::set<std::string> nodes(JobId id) const {
        const auto& list = desk.job(id).attempt.value().nodes;
        return {list.begin(), list.end()};
    }
    static spec::JobSpec part(int percent) {
        spec::JobSpec spec = wants(1, 1, 1);
        spec.resources.gpu_percent = percent;
        return spec;
    }
    Desk desk;
};

TEST_F(Shapes, TwoHalvesShareAGpuAndAThirdTakesTheOther) {
    desk.join("n", 4, 2);
    const JobId one = desk.submit(part(50));
    const JobId two = desk.submit(part(50));
    const JobId three = desk.submit(part(50));
    EXPECT_EQ(place(one).gpus, place(two).gpus);
    EXPECT_NE(place(three).gpus, place(one).gpus);
    const JobId whole = desk.submit(wants(1, 1, 1));
    EXPECT_FALSE(runs(whole)) << "half a GPU is no GPU";
    desk.exit(three, Outcome::Done);
    EXPECT_TRUE(runs(whole));
}

TEST_F(Shapes, AGpuIsNeverGivenBeyondAHundredHundredths) {
    desk.join("n", 8, 1);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(runs(desk.submit(part(33))));
    const JobId more = desk.submit(part(2));
    EXPECT_FALSE(runs(more));
    desk.tell(Cancel{more, ""});
    EXPECT_TRUE(runs(desk.submit(part(1))));
}

TEST_F(Shapes, PartsCountAsPartsInAQuota) {
    spec::Policy policy;
    policy.users["ann"].quota.gpus = 1;
    desk.tell(SetPolicy{policy});
    desk.join("n", 8, 4);
    EXPECT_TRUE(runs(desk.submit(part(50))));
    EXPECT_TRUE(runs(desk.submit(part(50))));
    const JobId more = desk.submit(part(25));
    EXPECT_FALSE(runs(more));
    const Limits limits(desk.state, desk.now);
    EXPECT_EQ(limits.excess(desk.job(more), desk.job(more).spec.resources)->why,
              "user ann uses 1 of 1 GPU, and it needs 0.25");
}

TEST_F(Shapes, APartOfMoreThanOneGpuIsRefused) {
    spec::JobSpec spec = part(50);
    spec.resources.gpus_per_node = 2;
    EXPECT_EQ(desk.refusal(Submit{"k", "ann", spec}).message,
              "resources.gpu_percent is 50 with gpus_per_node 2; allowed: 1 to 99 with one GPU, "
              "else 100");
}

TEST_F(Shapes, TheFirstVariantThatFitsIsTaken) {
    desk.join("n", 4, 1);
    spec::JobSpec spec = wants(1, 1, 2);
    spec.variants = {wants(1, 1, 1).resources, wants(1, 4).resources};
    spec.variants[0].time = 1h;
    const JobId gpu = desk.submit(spec);
    ASSERT_TRUE(runs(gpu));
    EXPECT_EQ(desk.job(gpu).attempt->variant, 1);
    EXPECT_EQ(place(gpu).gpus.size(), 1u);
    const JobId next = desk.submit(spec);
    EXPECT_FALSE(runs(next)) << "one slot and the only GPU are taken";
    desk.pass(2h);  // past the variant's own time limit
    EXPECT_EQ(desk.job(gpu).attempt->phase, AttemptPhase::Stopping);
    desk.exit(gpu, Outcome::Stopped, 143);
    EXPECT_EQ(desk.job(next).attempt->variant, 1);
}

TEST_F(Shapes, AVariantWithinTheQuotaIsTaken) {
    spec::Policy policy;
    policy.users["ann"].quota.gpus = 0;
    desk.tell(SetPolicy{policy});
    desk.join("n", 4, 4);
    spec::JobSpec spec = wants(1, 1, 1);
    spec.variants = {wants(1, 2).resources};
    EXPECT_EQ(desk.job(desk.submit(spec)).attempt->variant, 1);
}

TEST_F(Shapes, AGangLiesInOneSegmentWhereItCan) {
    join("a1", 1, 0, "a");
    join("b1", 1, 0, "b");
    join("a2", 1, 0, "a");
    join("b2", 1, 0, "b");
    join("b3", 1, 0, "b");
    EXPECT_EQ(nodes(desk.submit(wants(2, 1))), (std::set<std::string>{"a1", "a2"}));
    const JobId wide = desk.submit(wants(3, 1));
    EXPECT_EQ(nodes(wide), (std::set<std::string>{"b1", "b2", "b3"}));
}

// Each leaf switch has two nodes. A gang of three fits under one spine, with its first two members
// under one leaf.
TEST_F(Shapes, AGangThatNoSegmentHoldsLiesUnderAsFewSwitchesAsItCan) {
    for (const char* node : {"a1", "x1", "y1", "z1", "x2", "a2", "y2"}) {
        const std::string leaf(1, node[0]);
        join(node, 1, 0, leaf == "a" ? "spine1.a" : "spine2." + leaf);
    }
    const JobId three = desk.submit(wants(3, 1));
    EXPECT_EQ(nodes(three), (std::set<std::string>{"x1", "x2", "y1"}));
    EXPECT_EQ(desk.job(three).attempt->nodes.front(), "x1");
    const JobId four = desk.submit(wants(4, 1));
    EXPECT_TRUE(runs(four)) << "no spine has four: any will do";
}

TEST_F(Shapes, NodesInARowShareASegmentIfTheJobWantsIt) {
    join("a1", 1, 0, "a");
    join("b1", 1, 0, "b");
    join("x", 1, 0, "");
    join("a2", 1, 0, "a");
    spec::JobSpec spec = wants(4, 1);
    spec.resources.segment = 2;
    const JobId id = desk.submit(spec);
    EXPECT_FALSE(runs(id)) << "b and no segment at all are none for two";
    join("b2", 1, 0, "b");
    ASSERT_TRUE(runs(id));
    const auto& list = desk.job(id).attempt->nodes;
    EXPECT_EQ(list[0][0], list[1][0]);
    EXPECT_EQ(list[2][0], list[3][0]);
    spec.resources.segment = 3;
    EXPECT_EQ(desk.refusal(Submit{"k", "ann", spec}).message,
              "resources.segment is 3; allowed: a divisor of nodes 4");
}

TEST_F(Shapes, GpusComeFromOneNumaNodeAndSlotsFromBesideThem) {
    join("n", 8, 4, "", {0, 0, 1, 1});
    const JobId one = desk.submit(wants(1, 1, 1));
    EXPECT_EQ(place(one).gpus, (std::vector{0}));
    EXPECT_EQ(place(one).slots, (std::vector{0}));
    const JobId two = desk.submit(wants(1, 4, 2));
    EXPECT_EQ(place(two).gpus, (std::vector{2, 3})) << "not one of each";
    EXPECT_EQ(place(two).slots, (std::vector{4, 5, 6, 7}));
    const JobId cpu = desk.submit(wants(1, 1));
    EXPECT_EQ(place(cpu).slots, (std::vector{1})) << "its GPU is taken anyway";
    const JobId last = desk.submit(wants(1, 2, 1));
    EXPECT_EQ(place(last).slots, (std::vector{2, 3}));
}

class Spares : public Shapes {
  protected:
    Spares() {
        for (const char* node : {"a", "b", "c"}) desk.join(node, 1, 1);
        spec = wants(2, 1, 1);
        spec.resources.spares = 1;
        spec.kind = spec::JobKind::Train;
    }
    std::string node_of_spare(JobId id) const { return desk.job(id).attempt.value().nodes.at(2); }
    spec::JobSpec spec;
};

TEST_F(Spares, AreHeldAndRunNothing) {
    const JobId id = desk.submit(spec);
    ASSERT_EQ(desk.job(id).attempt->places.size(), 3u);
    EXPECT_TRUE(place(id, 2).spare);
    EXPECT_EQ(actions(desk.state).size(), 2u);
    EXPECT_FALSE(runs(desk.submit(wants(1, 1)))) << "it is held";
    for (const std::size_t i : {0, 1})
        desk.tell(MemberStarted{place(id, i).worker, desk.attempt(id)});
    EXPECT_EQ(desk.job(id).attempt->phase, AttemptPhase::Running);
    desk.exit(id, Outcome::Done);
    EXPECT_EQ(desk.job(id).phase, JobPhase::Done);
}

TEST_F(Spares, ReplaceAFailedNodeInTheSameTurnWhateverWaits) {
    const JobId id = desk.submit(spec);
    spec::JobSpec urgent = wants(3, 1, 1);
    urgent.priority = 9;
    const JobId waits = desk.submit(urgent);
    const std::string spare = node_of_spare(id);
    const std::string failed = desk.job(id).attempt->nodes.at(0);
    desk.tell(WorkerGone{place(id).worker, "silent"});
    ASSERT_EQ(desk.job(id).attempt->phase, AttemptPhase::Stopping);
    desk.tell(MemberExited{place(id, 1).worker, desk.attempt(id), Outcome::Stopped, 143, ""});
    ASSERT_TRUE(runs(id)) << "no back-off, nobody in between";
    EXPECT_EQ(desk.job(id).attempts, 2u);
    EXPECT_EQ(nodes(id).count(spare), 1u);
    EXPECT_EQ(nodes(id).count(failed), 0u);
    EXPECT_EQ(desk.job(id).attempt->places.size(), 2u) << "the spare is used up";
    EXPECT_FALSE(runs(waits));
    EXPECT_EQ(desk.job(id).infra_failures, 1);
}

TEST_F(Spares, AreNotUsedForWhatTheProgramDid) {
    const JobId id = desk.submit(spec);
    desk.exit(id, Outcome::App, 1);
    EXPECT_FALSE(runs(id)) << "it backs off";
    desk.pass(2s);
    EXPECT_EQ(desk.job(id).attempt->places.size(), 3u);
}

TEST_F(Spares, AreNotUsedForAJobThatIsHeld) {
    const JobId id = desk.submit(spec);
    desk.tell(Hold{id, true});
    desk.exit(id, Outcome::Infra, 137);
    EXPECT_FALSE(runs(id));
}

TEST_F(Spares, AreNotUsedForAJobThatIsToBeginLater) {
    const JobId id = desk.submit(spec);
    desk.tell(SetBegin{id, desk.now + 1h});
    desk.exit(id, Outcome::Infra, 137);
    EXPECT_FALSE(runs(id));
    desk.pass(1h);
    EXPECT_TRUE(runs(id));
}

TEST_F(Spares, ALostSpareDisturbsNobody) {
    const JobId id = desk.submit(spec);
    desk.tell(WorkerGone{place(id, 2).worker, "silent"});
    EXPECT_EQ(desk.job(id).attempt->phase, AttemptPhase::Starting);
    desk.tell(WorkerGone{place(id).worker, "silent"});
    desk.exit(id, Outcome::Stopped, 143);
    EXPECT_FALSE(runs(id)) << "one node is left";
}

}  // namespace
}  // namespace roll::core
