// What `explain` suggests, done: for each rule that can hold a job its state is made, the remedy is
// carried out as it is written, and the job starts.
#include <regex>

#include "daemon/query/query.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::query {
namespace {

using namespace std::chrono_literals;
using core::Desk;
using core::JobPhase;
using core::Outcome;
using core::wants;

class Explain : public testing::Test {
  protected:
    // The only rule that holds the job, and its remedy.
    Hold only(JobId id) const {
        const auto all = holds(desk.state, id, desk.now);
        EXPECT_EQ(all.size(), 1u);
        return all.empty() ? Hold{} : all.front();
    }
    bool runs(JobId id) const { return desk.job(id).phase == JobPhase::Running; }
    static std::uint64_t number(const std::string& text) { return std::stoull(text); }

    // The rollctl command that the remedy names.
    void carry_out(const std::string& remedy) {
        std::smatch m;
        if (std::regex_search(remedy, m, std::regex("rollctl release (\\d+)"))) {
            desk.tell(core::Hold{JobId{number(m[1])}, false});
        } else if (std::regex_search(remedy, m, std::regex("rollctl update (\\d+) begin=now"))) {
            desk.tell(core::SetBegin{JobId{number(m[1])}, desk.now});
        } else if (std::regex_search(remedy, m,
                                     std::regex("rollctl update (\\d+) priority=(\\d+)"))) {
            desk.tell(core::SetPriority{JobId{number(m[1])}, std::stoi(m[2])});
        } else if (std::regex_search(remedy, m, std::regex("rollctl undrain ([\\w.]+)"))) {
            desk.tell(core::Drain{m[1], false});
        } else if (std::regex_search(remedy, m, std::regex("rollctl close (\\d+)"))) {
            desk.tell(core::Close{JobId{number(m[1])}});
        } else if (std::regex_search(remedy, m,
                                     std::regex("secret set (\\w+) < FILE, as (\\w+)"))) {
            desk.tell(core::SetSecrets{{{m[2], m[1]}}});
        } else if (remedy == "rollctl undrain --all") {
            desk.tell(core::StopDispatch{});
        } else if (std::regex_search(remedy, m, std::regex("rollctl alloc resume (\\w+)"))) {
            desk.tell(core::PauseQueue{m[1], false});
        } else if (std::regex_search(remedy, m, std::regex("(accounts|users)\\.(\\w+)\\.(\\w+)"))) {
            raise(m[1] == "users" ? policy.users[m[2]].quota : policy.accounts[m[2]].quota, m[3]);
        } else if (remedy.find("rollctl up") != remedy.npos) {
            desk.join("new", 4);
        } else if (remedy.find("roll-worker --segment") != remedy.npos) {
            for (const char* node : {"s1", "s2"})
                desk.tell(core::WorkerHello{node, node, 1, 0, {}, 0, "leaf"});
        } else {
            wait(remedy);
        }
    }
    void raise(spec::Quota& quota, const std::string& key) {
        if (key == "slots") quota.slots = 100;
        if (key == "gpus") quota.gpus = 100;
        if (key == "gpu_hours") quota.gpu_hours = 1000;
        desk.tell(core::SetPolicy{policy});
    }
    // "It starts by itself when ...": that comes to pass.
    void wait(const std::string& remedy) {
        const auto says = [&](const char* what) { return remedy.find(what) != remedy.npos; };
        if (says("when job 1 has ended so") || says("when one of them ends")) {
            end(JobId{1});
        } else if (says("after 35 beats")) {
            desk.tell(core::Adopted{});
        } else if (says("when Slurm has granted it")) {
            desk.tell(core::OrderAnswered{AllocationId{1}, true, "s1", ""});
            const core::Pilot pilot{AllocationId{1}, desk.state.incarnation, "s1", desk.now + 1h};
            desk.tell(core::WorkerHello{"p", "p", 8, 8, pilot});
        } else if (says("when they are; rollctl nodes")) {
            desk.tell(core::WorkerHeard{WorkerId{1}, true});
        } else {
            ADD_FAILURE() << "no command in: " << remedy;
        }
    }
    void expect_cured(JobId id, const std::string& rule) {
        ASSERT_FALSE(runs(id));
        const Hold hold = only(id);
        EXPECT_EQ(hold.rule, rule) << hold.why;
        EXPECT_FALSE(hold.why.empty());
        carry_out(hold.remedy);
        EXPECT_TRUE(runs(id)) << hold.remedy;
    }
    void expect_told(JobId id, const std::string& rule) {
        const Hold hold = only(id);
        EXPECT_EQ(hold.rule, rule) << hold.why;
        carry_out(hold.remedy);
    }
    void end(JobId id) { desk.exit(id, Outcome::Done); }

    Desk desk;
    spec::Policy policy{};
    spec::JobSpec spec = wants(1, 1);
};

// For each of kHoldRules: makes its state, does what the remedy says, and sees the job start. A
// rule without an entry here fails.
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
        EXPECT_EQ(only(id).why, "ann has no secret TOKEN any more");
        expect_cured(id, "secret");
    }
    // Such a job never starts: it ends.
    void open() {
        desk.join("n", 1);
        spec.open = true;
        const JobId id = desk.submit(spec);
        spec.open = false;
        spec.into = id;
        const JobId inside = desk.submit(spec);
        expect_told(id, "open");
        EXPECT_EQ(only(id).why, "closed: 1 of its jobs are not over");
        end(inside);
        EXPECT_EQ(desk.job(id).phase, JobPhase::Done);
    }
    void full_array() {
        desk.join("n", 4);
        spec.array = spec::parse_array("0-1%1").value();
        desk.submit(spec);
        expect_cured(JobId{2}, "array");
    }
    // Of an account and of a user, of each kind: the setting that the remedy names is raised.
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
        spec::PilotQueue queue;
        queue.name = "gpu";
        queue.slots = 8;
        queue.time = 1h;
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
        const JobId id = desk.submit(wants(1, 4));
        using Reasons = std::vector<std::pair<std::string, std::string>>;
        EXPECT_EQ(only(id).nodes, (Reasons{{"bad", "is left out: it failed"},
                                           {"small", "1 of 1 slots are free, it needs 4"}}));
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
        EXPECT_NE(hold.why.find("kept for job " + std::to_string(wide.value)), hold.why.npos);
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

TEST_F(Explain, ADrainingNodeIsNoRemedyIfMoreAreMissing) {
    desk.join("n", 1);
    desk.join("m", 1);
    desk.tell(core::Drain{"m", true});
    EXPECT_EQ(only(desk.submit(wants(2, 1))).remedy, "rollctl undrain m");
    EXPECT_TRUE(only(desk.submit(wants(3, 1))).remedy.starts_with("connect more workers"));
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
    EXPECT_NE(only(id).why.find("not on n, where it failed"), std::string::npos) << only(id).why;
    EXPECT_EQ(only(id).nodes.front(),
              (std::pair<std::string, std::string>{"n", "the job failed there"}));
    end(busy);
    EXPECT_TRUE(runs(id));
}

TEST_F(Explain, RoomThatOthersHaveStartsItWhenTheyEnd) {
    desk.join("n", 1);
    const JobId first = desk.submit(spec);
    const JobId id = desk.submit(spec);
    EXPECT_NE(only(id).remedy.find("it starts when jobs before it end"), std::string::npos);
    end(first);
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

TEST_F(Explain, AnOrderThatWouldNotPay) {
    spec::PilotQueue queue;
    queue.name = "gpu";
    queue.slots = 8;
    queue.time = 1h;
    queue.min_percent = 50;
    desk.tell(core::AddQueue{queue});
    const JobId id = desk.submit(wants(1, 3));
    EXPECT_EQ(only(id).why,
              "allocation queue gpu orders only what is used to 50 %, and the jobs that wait would "
              "use less");
    EXPECT_NE(only(id).remedy.find("lower --min-utilization"), std::string::npos);
    queue.max_jobs = 1;
    queue.min_percent = 30;
    desk.tell(core::RemoveQueue{"gpu"});
    desk.tell(core::AddQueue{queue});
    EXPECT_EQ(only(id).why, "waits for allocation 1 of queue gpu");
    expect_cured(id, "allocation");
    EXPECT_EQ(only(desk.submit(wants(2, 6))).why, "allocation queue gpu is at its limits");
}

// What `submit --dry-run` tells is what becomes of the job.
TEST_F(Explain, AForecastComesTrue) {
    const auto told = [&] {
        spec.output = "/runs/x-{id}";
        return *forecast(desk.state, core::Submit{"", "ann", spec}, desk.now);
    };
    EXPECT_EQ(told()["holds"][0]["rule"], "workers");
    spec::PilotQueue queue;
    queue.name = "gpu";
    queue.slots = 8;
    queue.time = 1h;
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

}  // namespace
}  // namespace roll::query
