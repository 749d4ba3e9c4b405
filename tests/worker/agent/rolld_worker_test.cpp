// Runs rolld, roll-worker and jobs as real processes on this machine, and asks rolld as rollctl
// does.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/client.hpp"
#include "common/io/process.hpp"
#include "common/spec/check/check_job.hpp"
#include "common/spec/job/job.hpp"

namespace roll {
namespace {

class RolldAndWorker : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = testing::TempDir() + "roll-e2e-XXXXXX";
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        folder_ = name;
        io::become_subreaper();
        rolld_ = start({ROLL_ROLLD_PROGRAM, "--dir", state()});
        worker_ = start_worker();
    }
    void TearDown() override {
        for (const pid_t pid : {worker_, rolld_}) end(pid, SIGKILL);
        EXPECT_TRUE(eventually([] {
            while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
            return io::descendants(::getpid()).empty();
        }));
        std::filesystem::remove_all(folder_);
    }
    std::string state() const { return (folder_ / "state").string(); }
    std::filesystem::path file(const std::string& name) const { return folder_ / name; }

    pid_t start(std::vector<std::string> arguments) {
        io::Spawn spawn;
        spawn.arguments = std::move(arguments);
        spawn.environment = io::current_environment();
        spawn.descriptors = {{STDERR_FILENO, STDERR_FILENO}};
        return io::spawn(spawn).value();
    }
    pid_t start_worker() {
        return start({ROLL_WORKER_PROGRAM, "--dir", state(), "--node", "here", "--slots", "2"});
    }
    static void end(pid_t pid, int signal) {
        ::kill(pid, signal);
        ::waitpid(pid, nullptr, 0);
    }
    static bool eventually(const std::function<bool()>& holds) {
        for (int i = 0; i < 2400; ++i) {
            if (holds()) return true;
            ::usleep(25000);
        }
        return false;
    }
    // Returns rolld's reply, or null if no rolld answers.
    Json ask(const std::string& op, const Json& args) {
        auto client = io::Client::connect(io::StateDirectory(folder_ / "state"));
        if (!client) return nullptr;
        auto reply = client->ask(op, args, std::chrono::milliseconds(2000));
        return reply ? *reply : Json(nullptr);
    }
    std::uint64_t submit(const std::string& name, const std::string& script) {
        const Json document = {{"kind", "command"},
                               {"name", name},
                               {"command", {"/bin/sh", "-c", script}},
                               {"output", file(name).string()}};
        const auto parsed = spec::check_job(document, folder_.string());
        EXPECT_TRUE(parsed.ok());
        Json reply;
        EXPECT_TRUE(eventually([&] {
            reply = ask(
                "submit",
                {{"key", name}, {"user", "me"}, {"spec", Json::parse(spec::to_json(parsed.spec))}});
            return !reply.is_null();
        }));
        return reply.value("id", std::uint64_t{0});
    }
    Json job(std::uint64_t id) {
        const Json reply = ask("show", {{"id", id}});
        return reply.is_null() ? Json::object() : reply.at("job");
    }
    bool becomes(std::uint64_t id, const std::string& expected) {
        return eventually([&] { return job(id).value("state", "") == expected; });
    }
    bool appears(const std::string& name) {
        return eventually([&] { return std::filesystem::exists(file(name)); });
    }
    std::string script_waiting_for(const std::string& name) {
        return "echo run >> " + file("runs").string() + "; while [ ! -e " + file(name).string() +
               " ]; do sleep 0.05; done";
    }
    std::string runs() { return read_file(file("runs")).value_or(""); }

    std::filesystem::path folder_;
    pid_t rolld_ = 0;
    pid_t worker_ = 0;
};

TEST_F(RolldAndWorker, ACommandRunsAndItsExitStatusIsTheJobs) {
    const auto good = submit("good", "echo hello $ROLL_JOB");
    const auto bad = submit("bad", "exit 3");
    EXPECT_TRUE(becomes(good, "done"));
    EXPECT_EQ(read_file(file("good") / "logs/attempt-1/rank-0.log").value(),
              "hello " + std::to_string(good) + "\n");
    EXPECT_TRUE(becomes(bad, "failed"));
    EXPECT_EQ(job(bad).at("exit_code"), 3);
}

TEST_F(RolldAndWorker, AJobOutlivesRolldAndRunsOnce) {
    const auto id = submit("long", script_waiting_for("go"));
    ASSERT_TRUE(appears("runs"));
    ASSERT_TRUE(becomes(id, "running"));
    end(rolld_, SIGKILL);
    rolld_ = start({ROLL_ROLLD_PROGRAM, "--dir", state()});
    ASSERT_TRUE(becomes(id, "running"));
    std::ofstream(file("go")) << "now\n";
    EXPECT_TRUE(becomes(id, "done"));
    EXPECT_EQ(runs(), "run\n");
    EXPECT_EQ(job(id).at("attempts").size(), 1u);
}

TEST_F(RolldAndWorker, AJobOfAKilledWorkerRunsAgainOnTheNextOne) {
    const auto id = submit("again", script_waiting_for("go"));
    ASSERT_TRUE(appears("runs"));
    end(worker_, SIGKILL);
    worker_ = start_worker();
    ASSERT_TRUE(eventually([&] { return runs() == "run\nrun\n"; }));
    std::ofstream(file("go")) << "now\n";
    EXPECT_TRUE(becomes(id, "done"));
    EXPECT_EQ(job(id).at("attempts").size(), 2u);
}

TEST_F(RolldAndWorker, ACancelledCommandIsGoneWithWhatItStarted) {
    const auto id = submit("cancelled", "setsid sleep 600 & " + script_waiting_for("never"));
    ASSERT_TRUE(appears("runs"));
    ASSERT_FALSE(ask("cancel", {{"selector", std::to_string(id)}, {"reason", "enough"}}).is_null());
    EXPECT_TRUE(becomes(id, "cancelled"));
    EXPECT_TRUE(eventually([&] {  // only guards are left; they wait for the next attempt
        for (const auto& process : io::descendants(worker_))
            if (process.parent != worker_ && process.state != 'Z') return false;
        return true;
    }));
}

}  // namespace
}  // namespace roll
