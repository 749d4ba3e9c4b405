// Tests the program roll-worker. A fake rolld gives it orders, and dummy ranks do what a job's
// document says.
#include <csignal>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/process.hpp"
#include "common/io/sha256.hpp"
#include "common/json.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/worker/agent/dummy_trainer.hpp"
#include "tests/worker/agent/fake_rolld.hpp"
#include "worker/agent/process/clock.hpp"
#include "worker/agent/process/wall.hpp"

namespace roll::agent {
namespace {

const AttemptKey kKey{.job = {7}, .token = {1, 1}};
const AttemptKey kOther{.job = {8}, .token = {1, 1}};

class WorkerTest : public testing::Test {
  protected:
    void SetUp() override {
        std::filesystem::create_directories(folder_ / "bin");
        std::filesystem::create_symlink(io::own_program(), folder_ / "bin/roll-rank");
        io::become_subreaper();
        rolld_.emplace(folder_ / "state", 1);
    }
    void TearDown() override {
        if (worker_ > 0) ::kill(worker_, SIGKILL);
        for (const pid_t pid : processes_named("roll-reaper"))
            ::kill(pid, SIGKILL);  // the reaper would wait for an answer of rolld
        EXPECT_TRUE(eventually_nothing_left());
        const auto wall = read_file(folder_ / "state/worker/node-1/walls");
        if (wall) remove_cgroup(Json::parse(*wall).value("cgroup", ""));
    }
    void start_worker(std::vector<std::string> flags = {}) {
        io::Spawn spawn;
        spawn.arguments = {ROLL_WORKER_PROGRAM,
                           "--dir",
                           (folder_ / "state").string(),
                           "--node",
                           "node-1",
                           "--slots",
                           "2",
                           "--bin-dir",
                           (folder_ / "bin").string()};
        for (std::string& flag : flags) spawn.arguments.push_back(std::move(flag));
        spawn.environment = io::current_environment();
        spawn.descriptors = {{STDERR_FILENO, STDERR_FILENO}};
        worker_ = io::spawn(spawn).value();
    }
    int wait_worker() {
        int status = 0;
        EXPECT_EQ(::waitpid(worker_, &status, 0), worker_);
        worker_ = 0;
        return status;
    }
    protocol::StartOrder order(const AttemptKey& key, const std::string& document, int ranks = 1) {
        protocol::StartOrder order;
        order.attempt = key;
        order.kind = document.find("\"command\"") == std::string::npos ? "train" : "command";
        order.document = document;
        order.output = out(key).string();
        order.ranks_per_node = ranks;
        order.slots.assign(static_cast<std::size_t>(ranks), 0);
        return order;
    }
    std::filesystem::path out(const AttemptKey& key) {
        return folder_ / ("out-" + std::to_string(key.job.value));
    }
    bool runs(const std::string& document, int ranks = 1) {
        rolld_->start.push_back(order(kKey, document, ranks));
        return rolld_->serve_until([&] { return rolld_->phase(kKey) == protocol::Phase::Running; });
    }
    bool ends(const AttemptKey& key = kKey) {
        return rolld_->serve_until(
            [&] { return rolld_->ended.contains(key) && !rolld_->entry(key); });
    }
    // Returns the processes of that name below this test.
    static std::vector<pid_t> processes_named(const std::string& name) {
        std::vector<pid_t> found;
        for (const io::ProcessInfo& process : io::descendants(::getpid())) {
            const std::string comm = "/proc/" + std::to_string(process.pid) + "/comm";
            if (process.state != 'Z' && read_file(comm).value_or("") == name + "\n")
                found.push_back(process.pid);
        }
        return found;
    }
    // Returns true if no process is left below this test. The test is a subreaper, so it inherits
    // what a killed worker leaves.
    bool nothing_left() {
        while (worker_ == 0 && ::waitpid(-1, nullptr, WNOHANG) > 0) continue;
        for (const io::ProcessInfo& process : io::descendants(::getpid()))
            if (process.state != 'Z') return false;
        return true;
    }
    bool eventually_nothing_left() {
        for (int i = 0; i < 3000 && !nothing_left(); ++i) ::usleep(20000);
        return nothing_left();
    }
    // Returns true if no rank and no process started by one is left: only guards run below the
    // worker.
    bool no_rank_runs() {
        for (const io::ProcessInfo& process : io::descendants(worker_))
            if (process.parent != worker_ && process.state != 'Z') return false;
        return true;
    }

    TemporaryFolder folder_;
    pid_t worker_ = 0;
    std::optional<FakeRolld> rolld_;
};

TEST_F(WorkerTest, AGangTrainsAndItsCheckpointIsPublishedAndRecorded) {
    start_worker();
    rolld_->start.push_back(order(kKey, R"({"rank": ["ready", "recorded 10"],
                        "rank-0": ["ready", "progress", "stage 10", "recorded 10"]})",
                                  2));
    ASSERT_TRUE(ends());
    EXPECT_EQ(rolld_->ended.at(kKey).outcome, Outcome::Done);
    EXPECT_TRUE(std::filesystem::exists(out(kKey) / "checkpoints/step-10.1-1"));
    EXPECT_FALSE(std::filesystem::exists(out(kKey) / "checkpoints/.step-10.1-1"));
    EXPECT_TRUE(rolld_->recorded.contains(kKey));
    const std::string journal = read_file(folder_ / "state/worker/node-1/attempts").value();
    EXPECT_TRUE(journal.ends_with("{\"forget\":{\"job\":7,\"token\":\"1-1\"}}\n"));
}

TEST_F(WorkerTest, FilesOfAnOrderThatIsWithdrawnAreRemoved) {
    protocol::StartOrder withdrawn = order(
        kKey, Json{{"command", {"true"}},
                   {"files", {{{"name", "x"}, {"bytes", 3}, {"pieces", {io::sha256("abc")}}}}}}
                  .dump());
    withdrawn.files = true;
    rolld_->start = {withdrawn};
    bool sent = false;
    rolld_->piece = [&](const std::string&) {
        rolld_->start.clear();  // the job was cancelled while the worker fetched its files
        rolld_->current.clear();
        sent = true;
        return "abc";
    };
    start_worker();
    ASSERT_TRUE(rolld_->serve_until([&] { return sent; }));
    const auto pieces = folder_ / "state/worker/node-1/files/pieces";
    ASSERT_TRUE(rolld_->serve_until([&] { return std::filesystem::exists(pieces); }));
    rolld_->start = {order(kOther, R"({"command": ["true"]})")};
    ASSERT_TRUE(ends(kOther));
    EXPECT_FALSE(std::filesystem::exists(pieces.parent_path() / "7-1-1"));
    EXPECT_FALSE(rolld_->ended.contains(kKey));
}

TEST_F(WorkerTest, AWorkerThatRolldRefusesEndsUnlessItMayBeTakenLater) {
    rolld_->refused = "node-1 belongs to a silent roll-worker";
    rolld_->keep_asking = true;
    rolld_->start = {order(kKey, R"({"command": ["true"]})")};
    start_worker();
    // More heartbeats, one a second, than there are in the 6 s after which a worker ends.
    ASSERT_TRUE(rolld_->serve_until([&] { return rolld_->confirmed >= 7; }));
    EXPECT_FALSE(rolld_->entry(kKey));
    const std::string log = read_file(folder_ / "state/worker.log").value();
    const std::string waits = "waits: " + rolld_->refused;
    EXPECT_NE(log.find(waits), std::string::npos);
    EXPECT_EQ(log.find(waits), log.rfind(waits)) << "said once";
    rolld_->refused.clear();
    rolld_->keep_asking = false;
    ASSERT_TRUE(ends()) << "rolld takes it";
    rolld_->refused = "node-1 already runs a roll-worker";
    int status = 0;
    ASSERT_TRUE(rolld_->serve_until([&] { return ::waitpid(worker_, &status, WNOHANG) > 0; }));
    worker_ = 0;
    EXPECT_EQ(WEXITSTATUS(status), 4);
}

TEST_F(WorkerTest, CommandsRunSideBySideAndTheirExitStatusesArrive) {
    start_worker();
    rolld_->start.push_back(order(kKey, R"({"command": ["sh", "-c", "echo $ROLL_JOB; exit 3"]})"));
    rolld_->start.push_back(order(kOther, R"({"command": ["/nowhere/prog"]})"));
    ASSERT_TRUE(ends(kKey));
    ASSERT_TRUE(ends(kOther));
    EXPECT_EQ(rolld_->ended.at(kKey).outcome, Outcome::App);
    EXPECT_EQ(rolld_->ended.at(kKey).exit_code, 3);
    EXPECT_EQ(read_file(out(kKey) / "logs/attempt-1/rank-0.log").value(), "7\n");
    EXPECT_EQ(rolld_->ended.at(kOther).outcome, Outcome::Invalid);
    EXPECT_EQ(rolld_->ended.at(kOther).exit_code, 127);
}

TEST_F(WorkerTest, OneRanksFailureEndsTheOthers) {
    start_worker();
    rolld_->start.push_back(order(
        kKey,
        R"({"rank": ["deaf", "ready", "hang"], "rank-1": ["ready", "fail no data", "exit 1"]})",
        2));
    ASSERT_TRUE(ends());
    EXPECT_EQ(rolld_->ended.at(kKey).outcome, Outcome::App);
    EXPECT_EQ(rolld_->ended.at(kKey).reason, "no data");
}

TEST_F(WorkerTest, AStopThatIsNotHeardIsEnforced) {
    start_worker({"--stop-grace", "0.5"});
    ASSERT_TRUE(runs(R"({"rank": ["deaf", "child", "ready", "hang"]})"));
    rolld_->stop[kKey] = {kKey, "cancelled", false};
    ASSERT_TRUE(ends());
    EXPECT_EQ(rolld_->ended.at(kKey).outcome, Outcome::Stopped);
    EXPECT_TRUE(no_rank_runs());
}

TEST_F(WorkerTest, AFencedAttemptDies) {
    start_worker();
    ASSERT_TRUE(runs(R"({"rank": ["deaf", "ready", "hang"]})"));
    rolld_->current.clear();
    ASSERT_TRUE(ends());
    EXPECT_EQ(rolld_->ended.at(kKey).outcome, Outcome::Stopped);
}

TEST_F(WorkerTest, NothingOutlivesAKilledWorkerAndTheNextOneReportsIt) {
    // long, so that no deadline ends the attempt
    start_worker({"--lease", "300", "--fence", "300"});
    ASSERT_TRUE(runs(R"({"rank": ["deaf", "child", "stage 5", "ready", "hang"]})", 2));
    ASSERT_TRUE(rolld_->serve_until([&] { return rolld_->recorded.contains(kKey); }));
    ::kill(worker_, SIGKILL);
    wait_worker();
    EXPECT_TRUE(eventually_nothing_left());
    start_worker();
    ASSERT_TRUE(ends());
    EXPECT_GE(rolld_->sessions.size(), 2u);  // the reaper also sends heartbeats
    EXPECT_EQ(rolld_->ended.at(kKey).outcome, Outcome::Infra);
    EXPECT_EQ(rolld_->ended.at(kKey).reason, "roll-worker was restarted");
}

TEST_F(WorkerTest, RanksOfAFrozenWorkerDieByTheirLeash) {
    start_worker({"--lease", "1", "--fence", "0.5"});
    ASSERT_TRUE(runs(R"({"rank": ["deaf", "child", "ready", "hang"]})"));
    ::kill(worker_, SIGSTOP);
    EXPECT_TRUE(rolld_->silent_until([&] { return no_rank_runs(); }, true));
    ::kill(worker_, SIGCONT);
    ASSERT_TRUE(ends());
    EXPECT_EQ(rolld_->ended.at(kKey).outcome, Outcome::Infra);
}

TEST_F(WorkerTest, CutOffFromARolldThatServesItStopsWithACheckpoint) {
    start_worker({"--lease", "2", "--fence", "58"});
    ASSERT_TRUE(runs(R"({"rank": ["deaf", "ready", "stop", "stage 7", "exit 75"]})"));
    EXPECT_TRUE(rolld_->silent_until([&] { return no_rank_runs(); }, true));
    EXPECT_TRUE(std::filesystem::exists(out(kKey) / "checkpoints/.step-7.1-1"));
    EXPECT_FALSE(std::filesystem::exists(out(kKey) / "checkpoints/step-7.1-1"));
    ASSERT_TRUE(ends());
    EXPECT_EQ(rolld_->ended.at(kKey).outcome, Outcome::Yielded);
    EXPECT_TRUE(std::filesystem::exists(out(kKey) / "checkpoints/step-7.1-1"));
    EXPECT_EQ(rolld_->recorded.at(kKey).front(), 7);
}

TEST_F(WorkerTest, TrainingGoesOnWithoutRolldAndTheNextRolldAdoptsIt) {
    start_worker({"--lease", "9", "--fence", "3"});
    ASSERT_TRUE(runs(
        R"({"rank": ["ready", "recorded 10"], "rank-0": ["deaf", "ready", "stop", "exit 75"]})"));
    const Instant back = boot_now() + Millis(14000);  // later than lease and fence
    EXPECT_TRUE(rolld_->silent_until([&] { return boot_now() >= back; }, false));
    EXPECT_FALSE(no_rank_runs());
    rolld_.reset();
    rolld_.emplace(folder_ / "state", 2);
    rolld_->current.insert(kKey);
    ASSERT_TRUE(
        rolld_->serve_until([&] { return rolld_->phase(kKey) == protocol::Phase::Running; }));
    rolld_->stop[kKey] = {kKey, "preempted", true};
    ASSERT_TRUE(ends());
    EXPECT_EQ(rolld_->ended.at(kKey).outcome, Outcome::Yielded);
}

TEST_F(WorkerTest, SigtermStopsTheAttemptsThenTheWorker) {
    start_worker();
    ASSERT_TRUE(runs(R"({"rank": ["deaf", "ready", "stop", "stage 3", "exit 75"]})"));
    ::kill(worker_, SIGTERM);
    ASSERT_TRUE(rolld_->serve_until([&] { return rolld_->ended.contains(kKey); }));
    EXPECT_EQ(rolld_->ended.at(kKey).outcome, Outcome::Yielded);
    EXPECT_EQ(rolld_->recorded.at(kKey).front(), 3);
    ASSERT_TRUE(rolld_->serve_until([&] {
        const auto process = io::find_process(worker_);
        return !process || process->state == 'Z';
    }));
    const int status = wait_worker();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Programs with no mark, session, parent, descriptor or user that ties them to their attempt.
class WallTest : public WorkerTest, public testing::WithParamInterface<const char*> {
  protected:
    void SetUp() override {
        WorkerTest::SetUp();
        if (const auto wall = Wall::choose(GetParam(), "trial"); !wall)
            GTEST_SKIP() << wall.error().message;
        else
            remove_cgroup(wall->directory());
        start_worker({"--wall", GetParam(), "--lease", "300", "--fence", "300"});
        const std::string user = ::geteuid() == 0 ? "setpriv --reuid 65534 " : "";
        const std::string stray = "exec 0<&- 1<&- 2<&-; env -i setsid " + user +
                                  "sh -c 'sleep 1000 & sleep 1000 & wait' &";
        const std::string script = "(" + stray + ") ; env -i setsid sleep 1000 & wait";
        ASSERT_TRUE(runs(Json{{"command", {"sh", "-c", script}}}.dump()));
        ASSERT_TRUE(rolld_->serve_until([&] { return sleepers().size() == 3; }));
    }
    void TearDown() override {
        for (const pid_t pid : sleepers()) ::kill(pid, SIGKILL);
        WorkerTest::TearDown();
    }
    static std::vector<pid_t> sleepers() { return processes_named("sleep"); }
    void kill_guards() {
        for (const pid_t pid : processes_named("roll-worker"))
            if (pid != worker_) ::kill(pid, SIGKILL);
    }
    // Kills the worker and its guards at once, as `pkill -9 roll-worker` does.
    void kill_worker_and_guards() {
        ::kill(worker_, SIGSTOP);
        kill_guards();
        ::kill(worker_, SIGKILL);
        wait_worker();
    }
    bool ends_as_infra() {
        return rolld_->serve_until([&] { return rolld_->ended.contains(kKey); }) &&
               rolld_->ended.at(kKey).outcome == Outcome::Infra;
    }
};

TEST_P(WallTest, AKilledGuardLeavesNothingAndTheWorkerGoesOn) {
    kill_guards();
    ASSERT_TRUE(ends());
    EXPECT_TRUE(sleepers().empty());
    rolld_->start = {order(kOther, R"({"command": ["true"]})")};
    EXPECT_TRUE(ends(kOther));
}

TEST_P(WallTest, WithKilledGuardsTheReaperEndsWhatAKilledWorkerLeftAndTellsRolld) {
    kill_worker_and_guards();  // no next worker is started
    if (wall_from(GetParam()) == WallKind::Marks) {
        EXPECT_TRUE(rolld_->serve_until([&] { return processes_named("roll-reaper").empty(); }));
        EXPECT_EQ(rolld_->sessions.size(), 1u) << "nobody can know that nothing is left";
        return;
    }
    ASSERT_TRUE(ends_as_infra());
    EXPECT_TRUE(sleepers().empty());
    EXPECT_EQ(rolld_->sessions.size(), 2u);
}

TEST_P(WallTest, TheReaperTellsOfAKilledWorkerWhoseGuardsEndedTheirs) {
    ::kill(worker_, SIGKILL);
    wait_worker();
    ASSERT_TRUE(ends_as_infra());
    EXPECT_TRUE(sleepers().empty());
}

TEST_P(WallTest, TheNextWorkerEndsWhatIsLeftThoughTheReaperWasKilledToo) {
    if (wall_from(GetParam()) == WallKind::Marks) return;  // not covered by marks, see the README
    ::kill(worker_, SIGSTOP);
    for (const pid_t pid : processes_named("roll-reaper")) ::kill(pid, SIGKILL);
    kill_worker_and_guards();
    start_worker({"--wall", GetParam()});
    ASSERT_TRUE(ends_as_infra());
    EXPECT_TRUE(sleepers().empty());
}

INSTANTIATE_TEST_SUITE_P(Each, WallTest, testing::Values("cgroup", "namespace", "marks"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace roll::agent

int main(int argc, char** argv) {
    const int status = roll::agent::run_as_dummy({argv, argv + argc});
    if (status >= 0) return status;
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
