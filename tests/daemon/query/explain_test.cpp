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
        } else if (remedy.find("rollctl up") != remedy.npos) {
            desk.join("new", 4);
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
    void end(JobId id) { desk.exit(id, Outcome::Done); }

    Desk desk;
    spec::JobSpec spec = wants(1, 1);
};

TEST_F(Explain, AHeldJob) {
    desk.join("n", 1);
    spec.hold = true;
    expect_cured(desk.submit(spec), "hold");
}

TEST_F(Explain, ABeginTime) {
    desk.join("n", 1);
    spec.begin = desk.now + 1h;
    expect_cured(desk.submit(spec), "begin");
}

TEST_F(Explain, ABackOff) {
    desk.join("n", 1);
    const JobId id = desk.submit(spec);
    desk.exit(id, Outcome::Infra, 137);
    expect_cured(id, "retry");
}

TEST_F(Explain, NoWorker) { expect_cured(desk.submit(spec), "workers"); }

TEST_F(Explain, ADrainingNode) {
    desk.join("n", 1);
    desk.tell(core::Drain{"n", true});
    expect_cured(desk.submit(spec), "room");
}

TEST_F(Explain, AMachineThatIsLeftOut) {
    desk.join("bad", 4);
    desk.join("small", 1);
    core::apply(desk.state, core::MachineExcluded{"bad", desk.now + 1h, "it failed", desk.now});
    expect_cured(desk.submit(wants(1, 4)), "room");
}

TEST_F(Explain, RoomThatIsKeptForAnother) {
    desk.join("n", 2);
    spec.resources.time = 1h;
    const JobId running = desk.submit(spec);
    ASSERT_TRUE(runs(running));
    const JobId wide = desk.submit(wants(1, 2));
    EXPECT_EQ(only(wide).rule, "room");
    spec.resources.time = 2h;
    const JobId id = desk.submit(spec);
    const Hold hold = only(id);
    EXPECT_NE(hold.why.find("kept for job " + std::to_string(wide.value)), hold.why.npos);
    EXPECT_NE(hold.why.find(to_iso8601(desk.now + 1h)), hold.why.npos);
    expect_cured(id, "reservation");
}

TEST_F(Explain, RoomThatOthersHaveStartsItWhenTheyEnd) {
    desk.join("n", 1);
    const JobId first = desk.submit(spec);
    const JobId id = desk.submit(spec);
    EXPECT_NE(only(id).remedy.find("it starts when jobs before it end"), std::string::npos);
    end(first);
    EXPECT_TRUE(runs(id));
}

TEST_F(Explain, ADependencyStartsItWhenThatJobEnds) {
    desk.join("n", 2);
    const JobId first = desk.submit(spec);
    spec.after = {{spec::After::Condition::Ok, first}};
    const JobId id = desk.submit(spec);
    const Hold hold = only(id);
    EXPECT_EQ(hold.rule, "after");
    EXPECT_NE(hold.remedy.find("when job 1 has ended so"), hold.remedy.npos);
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

TEST_F(Explain, AnArraysLimitStartsItWhenOneEnds) {
    desk.join("n", 4);
    spec.array = spec::parse_array("0-1%1").value();
    desk.submit(spec);
    const Hold hold = only(JobId{2});
    EXPECT_EQ(hold.rule, "array");
    EXPECT_EQ(hold.remedy, "it starts by itself when one of them ends");
    end(JobId{1});
    EXPECT_TRUE(runs(JobId{2}));
}

// The setting that the remedy names is raised, and rolld.yaml read again.
TEST_F(Explain, AQuotaThatIsRaised) {
    desk.join("n", 4, 4);
    spec::Policy policy;
    policy.accounts["lab"].users = {"ann"};
    policy.accounts["lab"].quota = {.slots = 1, .gpus = 4, .gpu_hours = 1, .jobs = {}};
    desk.tell(core::SetPolicy{policy});
    const auto raise = [&](const Hold& hold) {
        EXPECT_EQ(hold.rule, "quota");
        spec::Quota& quota = policy.accounts["lab"].quota;
        if (hold.remedy.find("accounts.lab.slots") != hold.remedy.npos) quota.slots = 8;
        if (hold.remedy.find("accounts.lab.gpus") != hold.remedy.npos) quota.gpus = 8;
        if (hold.remedy.find("accounts.lab.gpu_hours") != hold.remedy.npos) quota.gpu_hours = 100;
        desk.tell(core::SetPolicy{policy});
    };
    ASSERT_TRUE(runs(desk.submit(spec)));
    const JobId id = desk.submit(spec);
    raise(only(id));
    EXPECT_TRUE(runs(id));
    policy.accounts["lab"].quota.gpus = 0;
    desk.tell(core::SetPolicy{policy});
    spec::JobSpec with_gpu = wants(1, 1, 1);
    with_gpu.resources.time = 2h;
    const JobId gpu = desk.submit(with_gpu);
    raise(only(gpu));
    ASSERT_FALSE(runs(gpu)) << "its hours are too many, too";
    raise(only(gpu));
    EXPECT_TRUE(runs(gpu));
}

TEST_F(Explain, ACronJobSendsOneNow) {
    desk.join("n", 1);
    spec.cron = "@daily";
    const JobId id = desk.submit(spec);
    EXPECT_EQ(only(id).rule, "cron");
    carry_out(only(id).remedy);
    EXPECT_TRUE(runs(JobId{2}));
}

TEST_F(Explain, NothingOfARunningJob) {
    desk.join("n", 1);
    EXPECT_TRUE(holds(desk.state, desk.submit(spec), desk.now).empty());
}

}  // namespace
}  // namespace roll::query
