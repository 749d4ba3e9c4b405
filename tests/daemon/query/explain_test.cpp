// Does what `explain` suggests. For each rule that can hold a job, a test creates the hold and
// carries out the remedy as it is written; then the job must start.
#include "common/spec/schema/array.hpp"
#include "tests/daemon/query/remedies.hpp"

namespace roll::query {
namespace {

// For each of kHoldRules: creates the hold, carries out the remedy, and checks that the job starts.
// Fails if a rule has no entry here.
struct Cases : Explain {
    void TestBody() override {}
    using Case = void (Cases::*)();
    static std::map<std::string, Case> all() {
        return {{"hold", &Cases::held},
                {"after", &Cases::dependency},
                {"cron", &Cases::cron},
                {"begin", &Cases::begin_time},
                {"retry", &Cases::back_off},
                {"array", &Cases::full_array},
                {"quota", &Cases::quotas},
                {"adopting", &Cases::adopting},
                {"workers", &Cases::no_worker},
                {"allocation", &Cases::paused_queue},
                {"silent", &Cases::silence},
                {"segment", &Cases::segments},
                {"stopped", &Cases::stopped},
                {"room", &Cases::left_out},
                {"reservation", &Cases::reserved},
                {"open", &Cases::open},
                {"secret", &Cases::secret}};
    }

    void stopped() {
        desk.join("n", 1);
        desk.tell(core::StopDispatch{"power at 18:00"});
        const JobId id = desk.submit(spec);
        EXPECT_EQ(only(id).why, "no job is started: power at 18:00");
        expect_cured(id, "stopped");
    }
    void held() {
        desk.join("n", 1);
        spec.hold = true;
        expect_cured(desk.submit(spec), "hold");
    }
    void begin_time() {
        desk.join("n", 1);
        spec.begin = desk.now + 1h;
        expect_cured(desk.submit(spec), "begin");
    }
    void back_off() {
        desk.join("n", 1);
        const JobId id = desk.submit(spec);
        desk.exit(id, Outcome::Infra, 137);
        expect_cured(id, "retry");
    }
    void no_worker() { expect_cured(desk.submit(spec), "workers"); }
    void dependency() {
        desk.join("n", 2);
        desk.submit(spec);
        spec.after = {{spec::After::Condition::Ok, JobId{1}}};
        expect_cured(desk.submit(spec), "after");
    }
    void cron() {
        desk.join("n", 1);
        spec.cron = "@daily";
        const Hold hold = only(desk.submit(spec));
        EXPECT_EQ(hold.rule, "cron");
        carry_out(hold.remedy);
        EXPECT_TRUE(runs(JobId{2}));
    }
    void secret() {
        desk.join("n", 1);
        spec.secrets = {"TOKEN"};
        desk.tell(core::SetSecrets{{{"ann", "TOKEN"}}});
        ASSERT_TRUE(runs(desk.submit(wants(1, 1))));
        const JobId id = desk.submit(spec);
        desk.tell(core::SetSecrets{});
        end(JobId{1});
        EXPECT_EQ(only(id).why, "user ann no longer has a secret TOKEN");
        expect_cured(id, "secret");
    }
    // A job group never starts; it ends.
    void open() {
        desk.join("n", 1);
        spec.open = true;
        const JobId id = desk.submit(spec);
        spec.open = false;
        spec.into = id;
        const JobId inside = desk.submit(spec);
        expect_told(id, "open");
        EXPECT_EQ(only(id).why, "closed job group; jobs that have not ended: 1");
        end(inside);
        EXPECT_EQ(desk.job(id).phase, JobPhase::Done);
    }
    void full_array() {
        desk.join("n", 4);
        spec.array = spec::parse_array("0-1%1").value();
        desk.submit(spec);
        expect_cured(JobId{2}, "array");
    }
    // Raises the quotas that the remedies name, of each kind, for an account and for a user.
    void quotas() {
        desk.join("n", 8, 8);
        policy.accounts["lab"].users = {"ann"};
        policy.accounts["lab"].quota = {.slots = 1, .gpus = 1, .gpu_hours = 1, .jobs = {}};
        policy.users["ann"].quota = policy.accounts["lab"].quota;
        desk.tell(core::SetPolicy{policy});
        ASSERT_TRUE(runs(desk.submit(spec)));
        const JobId wide = desk.submit(wants(1, 1));
        for (const char* who : {"account lab uses", "user ann uses"}) {
            ASSERT_FALSE(runs(wide));
            EXPECT_TRUE(only(wide).why.starts_with(who)) << only(wide).why;
            carry_out(only(wide).remedy);
        }
        EXPECT_TRUE(runs(wide));
        spec::JobSpec gpus = wants(1, 1, 2);
        gpus.resources.time = 3h;
        const JobId many = desk.submit(gpus);
        for (int i = 0; i < 4 && !runs(many); ++i) expect_told(many, "quota");
        EXPECT_TRUE(runs(many)) << "GPUs, then GPU-hours, of both";
    }
    void adopting() {
        desk.join("n", 1);
        desk.tell(core::Started{0, true});
        desk.tell(core::WorkerHeard{WorkerId{1}, true});
        expect_cured(desk.submit(spec), "adopting");
    }
    void paused_queue() {
        desk.tell(core::AddQueue{queue});
        desk.tell(core::PauseQueue{"gpu", true});
        const JobId id = desk.submit(spec);
        expect_told(id, "allocation");
        ASSERT_EQ(desk.state.allocations.size(), 1u) << "one is ordered";
        EXPECT_EQ(only(id).why, "waits for allocation 1 of queue gpu");
        expect_cured(id, "allocation");
    }
    void silence() {
        desk.join("n", 1);
        desk.tell(core::WorkerHeard{WorkerId{1}, false});
        expect_cured(desk.submit(spec), "silent");
    }
    void segments() {
        desk.join("m", 1);
        desk.join("n", 1);
        spec.resources.nodes = spec.resources.segment = 2;
        expect_cured(desk.submit(spec), "segment");
    }
    void left_out() {
        desk.join("bad", 4);
        desk.join("small", 1);
        core::apply(desk.state, core::MachineExcluded{"bad", desk.now + 1h, "it failed", desk.now});
        desk.join("drained", 4);
        desk.tell(core::Drain{"drained", true});
        spec::JobSpec wide = wants(3, 1);
        const JobId id = desk.submit(wide);
        EXPECT_TRUE(runs(desk.submit(wants(1, 4))))
            << "an excluded node is used where none else is";
        desk.exit(JobId{2}, Outcome::Done);
        core::apply(desk.state, core::MachineExcluded{"bad", desk.now + 1h, "it failed", desk.now});
        using Reasons = std::vector<std::pair<std::string, std::string>>;
        EXPECT_EQ(only(id).nodes, (Reasons{{"bad", "is excluded: it failed"},
                                           {"small", "could run a part of the job now"},
                                           {"drained", "is drained"}}));
        expect_cured(id, "room");
    }
    void reserved() {
        desk.join("n", 2);
        spec.resources.time = 1h;
        ASSERT_TRUE(runs(desk.submit(spec)));
        const JobId wide = desk.submit(wants(1, 2));
        EXPECT_EQ(only(wide).rule, "room");
        spec.resources.time = 2h;
        const JobId id = desk.submit(spec);
        const Hold hold = only(id);
        EXPECT_NE(hold.why.find("reserved for job " + std::to_string(wide.value)), hold.why.npos);
        EXPECT_NE(hold.why.find(to_iso8601(desk.now + 1h)), hold.why.npos);
        expect_cured(id, "reservation");
    }
};

class EveryRule : public testing::TestWithParam<const char*> {};

TEST_P(EveryRule, IsCured) {
    const auto all = Cases::all();
    const auto found = all.find(GetParam());
    ASSERT_NE(found, all.end()) << "no test makes the state of rule " << GetParam();
    Cases cases;
    (cases.*found->second)();
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRule, testing::ValuesIn(kHoldRules));

TEST_F(Explain, ADrainingNode) {
    desk.join("n", 1);
    desk.tell(core::Drain{"n", true});
    expect_cured(desk.submit(spec), "room");
}

TEST_F(Explain, DrainedNodesAreToldAsDrainedNotAsTooSmall) {
    for (const char* node : {"m", "n"}) {
        desk.join(node, 1);
        desk.tell(core::Drain{node, true});
    }
    EXPECT_EQ(only(desk.submit(spec)).why,
              "needs 1 node with 1 slot; 2 of 2 suitable nodes are drained: m, n");
}

TEST_F(Explain, WhatNothingCanEverRunIsToldWhateverElseItWaitsFor) {
    spec.hold = true;
    const auto why = [&](JobId id) {
        const auto hold = never(desk.state, id, desk.now);
        return hold ? hold->why : "";
    };
    const JobId id = desk.submit(spec);
    EXPECT_EQ(why(id), "no worker is connected");
    desk.join("n", 1);
    EXPECT_EQ(why(id), "");
    const JobId wide = desk.submit(wants(2, 1));
    EXPECT_EQ(why(wide), "needs 2 nodes with 1 slot each; only 1 node is connected");
    desk.tell(core::Drain{"n", true});
    EXPECT_NE(why(id).find("is drained: n"), std::string::npos) << why(id);
    desk.tell(core::AddQueue{queue});
    EXPECT_EQ(why(id), "") << "an allocation will be ordered for it";
    desk.tell(core::PauseQueue{"gpu", true});
    const auto refused =
        refuse_never(desk.state, core::Submit{"new", "ann", wants(9, 1)}, desk.now);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::Refused);
    EXPECT_EQ(refused.error().hint, "rollctl alloc resume gpu");
    EXPECT_EQ(desk.state.jobs.size(), 2u);
}

TEST_F(Explain, ADrainingNodeIsNoRemedyIfMoreAreMissing) {
    desk.join("n", 1);
    desk.join("m", 1);
    desk.tell(core::Drain{"m", true});
    EXPECT_EQ(only(desk.submit(wants(2, 1))).remedy, "rollctl undrain m");
    EXPECT_TRUE(
        only(desk.submit(wants(3, 1))).remedy.starts_with("connect more or larger workers"));
}

TEST_F(Explain, ANodeWhereItFailedIsNoRoom) {
    desk.join("n", 1);
    spec.retry = {.infra = 5, .app = 0};
    spec.retry.on_exit = {{41, {spec::OnExit::AvoidNode, ""}}};
    const JobId id = desk.submit(spec);
    desk.join("other", 1);
    const JobId busy = desk.submit(wants(1, 1));
    desk.exit(id, Outcome::App, 41, "it broke");
    desk.pass(1h);
    EXPECT_NE(only(id).why.find("except on n, where the job failed"), std::string::npos)
        << only(id).why;
    EXPECT_EQ(only(id).nodes.front(),
              (std::pair<std::string, std::string>{"n", "the job failed on this node"}));
    end(busy);
    EXPECT_TRUE(runs(id));
}

TEST_F(Explain, RoomThatOthersHaveStartsItWhenTheyEnd) {
    desk.join("n", 1);
    const JobId first = desk.submit(spec);
    const JobId id = desk.submit(spec);
    EXPECT_NE(only(id).remedy.find("the job starts when earlier jobs end"), std::string::npos);
    end(first);
    EXPECT_TRUE(runs(id));
}

TEST_F(Explain, AnArrayStartsItWhenAllOfItHasEnded) {
    desk.join("n", 2);
    spec.array = spec::parse_array("0-1").value();
    desk.submit(spec);
    spec.array.reset();
    spec.after = {{spec::After::Condition::Ok, JobId{1}}};
    const JobId id = desk.submit(spec);
    end(JobId{1});
    EXPECT_EQ(only(id).why, "waits for ok:1; jobs of that array that have not ended: 1 of 2");
    EXPECT_TRUE(only(id).remedy.ends_with("rollctl jobs 1-2"));
    EXPECT_EQ(summary(desk.state, id, {}, desk.now)["after"], Json::array({"ok:1"}));
    end(JobId{2});
    EXPECT_TRUE(runs(id));
}

TEST_F(Explain, AnExportStartsItWhenThatEnds) {
    desk.join("n", 2);
    spec::JobSpec train = wants(1, 1);
    train.kind = spec::JobKind::Train;
    train.export_document = "{}";
    const JobId first = desk.submit(train);
    spec.after = {{spec::After::Condition::Exported, first}};
    const JobId id = desk.submit(spec);
    end(first);
    EXPECT_EQ(only(id).why, "waits for exported:1");
    end(*desk.job(first).export_job);
    EXPECT_TRUE(runs(id));
}

TEST_F(Explain, GpuHoursAndAJobWithoutATime) {
    desk.join("n", 8, 8);
    policy.users["ann"].quota = {.slots = {}, .gpus = {}, .gpu_hours = 8, .jobs = {}};
    desk.tell(core::SetPolicy{policy});
    held = desk.submit(wants(1, 1, 2));
    EXPECT_EQ(only(held).why,
              "user ann has a limit of GPU-hours, but the job does not set resources.time");
    EXPECT_EQ(only(held).remedy, "set resources.time and submit the job again");
    carry_out(only(held).remedy);
    EXPECT_TRUE(runs(held));
}

// If the end of other jobs would not help, the remedy must not say that it would.
TEST_F(Explain, MoreThanAQuotaEverAllows) {
    desk.join("n", 8, 8);
    policy.users["ann"].quota = {.slots = 4, .gpus = {}, .gpu_hours = 2, .jobs = {}};
    desk.tell(core::SetPolicy{policy});
    const JobId wide = desk.submit(wants(1, 8));
    EXPECT_EQ(only(wide).remedy,
              "reduce the job's `resources` and submit it again, or raise users.ann.slots in "
              "rolld.yaml and send rolld a SIGHUP");
    carry_out(only(wide).remedy);
    EXPECT_TRUE(runs(wide));
    end(wide);
    spec::JobSpec hour = wants(1, 1, 2);
    hour.resources.time = 1h;
    const JobId spends = desk.submit(hour);
    const JobId later = desk.submit(hour);
    EXPECT_TRUE(only(later).remedy.starts_with("the job starts by itself")) << only(later).remedy;
    desk.pass(1h);
    end(spends);
    EXPECT_TRUE(only(later).remedy.starts_with("reduce the job's")) << only(later).remedy;
    carry_out(only(later).remedy);
    EXPECT_TRUE(runs(later));
}

TEST_F(Explain, AVariantThatOthersLetInIsWhatItWaitsFor) {
    desk.join("n", 8);
    policy.users["ann"].quota = {.slots = 2, .gpus = {}, .gpu_hours = {}, .jobs = {}};
    desk.tell(core::SetPolicy{policy});
    ASSERT_TRUE(runs(desk.submit(spec)));
    spec::JobSpec either = wants(1, 4);
    either.variants = {wants(1, 2).resources};
    const JobId id = desk.submit(either);
    EXPECT_TRUE(only(id).remedy.starts_with("the job starts by itself")) << only(id).remedy;
    end(JobId{1});
    EXPECT_TRUE(runs(id));
}

TEST_F(Explain, WorkersThatAreTooSmallOrTooFew) {
    for (const auto& wide : {wants(1, 3), wants(2, 3)}) {
        desk = Desk{};
        desk.join("n", 1);
        const JobId id = desk.submit(wide);
        EXPECT_TRUE(only(id).why.ends_with("; no connected node has 3 slots")) << only(id).why;
        expect_cured(id, "room");
    }
}

TEST_F(Explain, NamesWhatTheConnectedNodesLack) {
    const auto why = [&](const spec::JobSpec& wanted) { return only(desk.submit(wanted)).why; };
    desk.join("cpu", 8);
    EXPECT_EQ(why(wants(1, 1, 1)), "needs 1 node with 1 GPU; no connected node has a GPU");
    EXPECT_EQ(why(wants(1, 9, 1)),
              "needs 1 node with 9 slots and 1 GPU; no connected node has these resources");
    desk.join("large", 8, 8);
    desk.join("small", 8, 4);
    EXPECT_EQ(why(wants(2, 1, 8)),
              "needs 2 nodes with 8 GPUs each; 1 of 3 connected nodes has these resources");
    EXPECT_EQ(why(wants(3, 2, 4)),
              "needs 3 nodes with 2 slots and 4 GPUs each; 2 of 3 connected nodes have 4 GPUs");
    EXPECT_EQ(why(wants(1, 9)), "needs 1 node with 9 slots; no connected node has 9 slots");
    EXPECT_EQ(why(wants(4, 8)), "needs 4 nodes with 8 slots each; only 3 nodes are connected");
    spec::JobSpec shared = wants(9, 2, 1);
    shared.resources.gpu_percent = 50;
    EXPECT_EQ(why(shared),
              "needs 9 nodes with 2 slots and 0.5 GPUs each; 2 of 3 connected nodes have 0.5 GPUs");
}

TEST_F(Explain, NamesTheMemoryAndTheCpusThatTheNodesLack) {
    constexpr std::int64_t kGibibyte = 1 << 30;
    const auto why = [&](int nodes, std::int64_t gibibytes, int cpus) {
        spec::JobSpec wanted = wants(nodes, 1);
        wanted.resources.memory = gibibytes * kGibibyte;
        wanted.resources.cpus = cpus;
        return only(desk.submit(wanted)).why;
    };
    desk.join("old", 8);
    EXPECT_EQ(why(1, 64, 0),
              "needs 1 node with 1 slot and 64 GiB of memory; no connected node reports its "
              "memory; update Roll on the nodes to rolld's release");
    core::WorkerHello hello{"n", "n", 8, 0};
    hello.memory = 23 * kGibibyte;
    hello.cpus = 2;
    desk.tell(hello);
    EXPECT_TRUE(
        why(1, 64, 0).starts_with("needs 1 node with 1 slot and 64 GiB of memory; the "
                                  "largest connected node offers 23 GiB of memory"));
    EXPECT_TRUE(
        why(1, 1, 3).starts_with("needs 1 node with 1 slot, 3 CPUs and 1 GiB of memory; "
                                 "the largest connected node offers 2 CPUs"));
    EXPECT_EQ(
        why(2, 23, 0),
        "needs 2 nodes with 1 slot and 23 GiB of memory each; 1 of 2 connected nodes offers 23 "
        "GiB of memory");
    spec.resources.memory = 20 * kGibibyte;
    desk.submit(spec);
    const JobId waits = desk.submit(spec);
    EXPECT_EQ(only(waits).why,
              "waits for free resources: needs 1 node with 1 slot and 20 GiB of memory");
    EXPECT_EQ(only(waits).nodes.back().second,
              "3 GiB of 23 GiB of memory are free, but the job needs 20 GiB");
}

TEST_F(Explain, AQueueThatDoesNotTellItsMemoryIsNotAskedForIt) {
    desk.tell(core::AddQueue{queue});
    spec.resources.memory = 1 << 30;
    const JobId id = desk.submit(spec);
    EXPECT_TRUE(desk.state.allocations.empty());
    EXPECT_EQ(only(id).why,
              "the job asks for memory, but the allocation queues do not say how much memory their "
              "nodes have");
    queue.name = "large";
    queue.memory = 8LL << 30;
    desk.tell(core::AddQueue{queue});
    EXPECT_EQ(desk.state.allocations.begin()->second.queue, "large");
    EXPECT_EQ(only(id).why, "waits for allocation 1 of queue large");
}

// The forecast of `submit --dry-run` is what then happens to the job.
TEST_F(Explain, AForecastComesTrue) {
    const auto told = [&] {
        spec.output = "/runs/x-{id}";
        return *forecast(desk.state, core::Submit{"", "ann", spec}, desk.now);
    };
    EXPECT_EQ(told()["holds"][0]["rule"], "workers");
    desk.tell(core::AddQueue{queue});
    EXPECT_EQ(told()["orders"], "gpu");
    EXPECT_EQ(told()["holds"][0]["why"], "waits for allocation 1 of queue gpu");
    desk.join("n", 1);
    EXPECT_EQ(told()["nodes"], Json({"n"}));
    EXPECT_TRUE(told()["orders"].is_null());
    const core::State before = desk.state;
    told();
    EXPECT_EQ(desk.state, before) << "it queues nothing";
    EXPECT_TRUE(runs(desk.submit(spec)));
    EXPECT_EQ(told()["holds"][0]["rule"], "room");
    spec.account = "nobody's";
    EXPECT_FALSE(forecast(desk.state, core::Submit{"", "ann", spec}, desk.now));
}

TEST_F(Explain, NothingOfARunningJob) {
    desk.join("n", 1);
    EXPECT_TRUE(holds(desk.state, desk.submit(spec), desk.now).empty());
}

TEST_F(Explain, ARunningJobNamesTheNodeWhoseSilenceIsWaitedFor) {
    desk.join("n", 1);
    const JobId id = desk.submit(spec);
    ASSERT_TRUE(runs(id));
    EXPECT_TRUE(holds(desk.state, id, desk.now).empty());
    desk.tell(core::WorkerHeard{WorkerId{1}, false});
    EXPECT_TRUE(only(id).why.starts_with("node n is silent")) << only(id).why;
    EXPECT_EQ(waiting(desk.state, id, desk.now), "");
}

TEST_F(Explain, AHeldTaskNamesTheCommandForItsWholeArray) {
    desk.join("n", 1);
    spec.hold = true;
    spec.array = spec::parse_array("0-2").value();
    desk.submit(spec);
    EXPECT_EQ(only(JobId{1}).remedy, "rollctl release 1; for the whole array: rollctl release 1-3");
}

}  // namespace
}  // namespace roll::query
