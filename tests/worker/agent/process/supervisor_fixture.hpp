// Tests Supervisor with real processes. The test program is also the guard and roll-rank.
#pragma once

#include <csignal>
#include <deque>
#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/agent/process/clock.hpp"
#include "worker/agent/process/supervisor.hpp"

namespace roll::agent {

using std::chrono::seconds;

inline const AttemptKey kKey{.job = {7}, .token = {1, 1}};

class SupervisorTest : public testing::Test {
  protected:
    void SetUp() override {
        std::filesystem::create_symlink(io::own_program(), folder_ / "roll-rank");
        io::become_subreaper();
        restart();
    }
    void TearDown() override {
        for (const io::ProcessInfo& process : io::descendants(::getpid()))
            ::kill(process.pid, SIGKILL);
    }
    void restart() {
        supervisor_.reset();
        run_directory_.reset();
        run_directory_.emplace(
            RunDirectory::open(folder_ / "worker", "session-" + folder_.string()).value());
        LaunchSite site;
        site.programs = folder_.string();
        site.session = "session-" + folder_.string();
        site.environment = io::current_environment();
        site.gpu_used_bytes = {0};
        site.gpu_wait_seconds = gpu_wait_;
        supervisor_.emplace(std::vector<std::string>{io::own_program(), "--guard"}, site,
                            *run_directory_, Wall(), limiter_);
    }
    protocol::StartOrder order(const std::string& document, int ranks = 1,
                               const std::string& kind = "train") {
        protocol::StartOrder order;
        order.attempt = key_;
        order.kind = kind;
        order.document = document;
        order.output = (folder_ / "out").string();
        order.ranks_per_node = ranks;
        order.memory = memory_;
        return order;
    }
    void start(const std::string& document, int ranks = 1, const std::string& kind = "train",
               seconds leash = seconds(600)) {
        supervisor_->start({order(document, ranks, kind), boot_now() + leash, boot_now() + leash});
    }
    // Waits until the nth event of type T has been collected.
    template <class T>
    const T& wait(int nth = 1) {
        for (const Instant deadline = boot_now() + seconds(60); boot_now() < deadline;) {
            int seen = 0;
            for (const ProcessEvent& event : events_)
                if (const T* found = std::get_if<T>(&event); found != nullptr && ++seen == nth)
                    return *found;
            std::vector<pollfd> polled;
            supervisor_->add_polled(polled);
            ::poll(polled.data(), polled.size(), 50);
            for (ProcessEvent& event : supervisor_->collect()) events_.push_back(std::move(event));
        }
        throw std::runtime_error("no such event within a minute");
    }
    template <class T>
    int count() const {
        return static_cast<int>(std::ranges::count_if(
            events_, [](const ProcessEvent& e) { return std::holds_alternative<T>(e); }));
    }
    // Returns true if no process is left but guards, which wait for the next attempt.
    bool nothing_left() {
        const auto left = io::descendants(::getpid());
        return std::ranges::all_of(left, [](const io::ProcessInfo& process) {
            return process.state == 'Z' || process.parent == ::getpid();
        });
    }
    std::set<pid_t> guards() {
        std::set<pid_t> pids;
        for (const io::ProcessInfo& process : io::descendants(::getpid()))
            if (process.parent == ::getpid() && process.state != 'Z') pids.insert(process.pid);
        return pids;
    }
    // Changes key_ to the next attempt of the same job and forgets the events so far.
    void next_attempt() {
        ++key_.token.attempt;
        events_.clear();
    }
    std::filesystem::path log_file(int rank) const {
        return folder_ / "out/logs/attempt-1" / ("rank-" + std::to_string(rank) + ".log");
    }
    std::string log(int rank) { return read_file(log_file(rank)).value(); }
    std::string logged(int rank) { return read_file(log_file(rank)).value_or(""); }

    // Starts a command on a GPU whose memory another process holds (fake_nvml.cpp).
    void start_on_held_gpu() {
        std::ofstream(folder_ / "held") << "";
        ::setenv("FAKE_NVML_HELD", (folder_ / "held").c_str(), 1);
        restart();
        auto command = order(R"({"command": ["echo", "ran"]})", 1, "command");
        command.gpus = {0};
        supervisor_->start({command, boot_now() + seconds(600), boot_now() + seconds(600)});
    }

    std::int64_t memory_ = 0;  // limit of the attempts in bytes
    Limiter limiter_{};
    AttemptKey key_ = kKey;
    int gpu_wait_ = 50;
    TemporaryFolder folder_;
    std::optional<RunDirectory> run_directory_;
    std::optional<Supervisor> supervisor_;
    std::deque<ProcessEvent> events_;
};

}  // namespace roll::agent
