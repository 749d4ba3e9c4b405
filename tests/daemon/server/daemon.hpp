// A real rolld in its own state directory, a worker that consists of the codecs, and a tap on a TCP
// connection.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/client.hpp"
#include "common/protocol/worker.hpp"
#include "common/spec/job/job.hpp"
#include "tests/temporary_folder.hpp"

namespace roll {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
constexpr auto kPatience = 60s;

// Waits until the condition holds. The limit is so long that only a hung test reaches it.
template <class Condition>
bool eventually(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
        if (condition()) return true;
        std::this_thread::sleep_for(20ms);
    }
    return false;
}

class Daemon {
  public:
    Daemon() = default;
    ~Daemon() {
        if (pid_ > 0) end(SIGKILL);
    }
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    void launch(std::vector<std::string> more = {}) {
        std::filesystem::remove(directory().endpoint_file());
        const char* const other = std::getenv("ROLL_TEST_ROLLD");  // set by lease_mutations.py
        std::vector<std::string> words = {other ? other : ROLLD_PROGRAM, "--dir", root.string()};
        words.insert(words.end(), more.begin(), more.end());
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        pid_ = ::fork();
        ASSERT_GE(pid_, 0);
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::execv(argv[0], argv.data());
            ::_exit(127);
        }
    }
    void start(std::vector<std::string> more = {}) {
        launch(std::move(more));
        ASSERT_TRUE(eventually([&] { return directory().read_endpoint().has_value(); }));
    }
    // Waits for the first beacon. rolld serves before it has written it.
    void await_beacon() {
        ASSERT_TRUE(eventually([&] { return std::filesystem::exists(directory().beacon()); }));
    }
    // Returns the exit status, or 128 + n if signal n ended rolld.
    int wait() {
        int status = 0;
        ::waitpid(std::exchange(pid_, -1), &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    int end(int signal) {
        ::kill(pid_, signal);
        return wait();
    }
    pid_t pid() const { return pid_; }
    io::StateDirectory directory() const { return io::StateDirectory(root); }
    io::Client client() const {
        auto connected = io::Client::connect(directory());
        EXPECT_TRUE(connected) << connected.error().message;
        return *std::move(connected);
    }

    TemporaryFolder root;

  private:
    pid_t pid_ = -1;
};

inline Json submit_args(const std::string& key, const std::string& name = "x") {
    spec::JobSpec spec;
    spec.name = name;
    spec.output = "/nowhere/" + name + "-{id}";
    spec.document = R"({"name":"x"})";
    return {{"key", key}, {"user", "ann"}, {"spec", Json::parse(spec::to_json(spec))}};
}

class FakeWorker {
  public:
    explicit FakeWorker(const Daemon& daemon) : socket_(context_, io::ZmqType::Dealer) {
        const auto keys = io::load_curve_keys(daemon.directory().keys(), "worker");
        const auto server = io::load_public_key(daemon.directory().keys() / "server.pub");
        EXPECT_TRUE(keys && server);
        socket_.set_curve_client(*keys, *server);
        EXPECT_TRUE(socket_.connect(*daemon.directory().read_endpoint()));
        heartbeat.session = "session-1";
        heartbeat.node = "node-1";
        heartbeat.slots = 2;
        heartbeat.heard_recently = true;
    }
    void send(const std::string& frame) { socket_.send({frame}); }
    void beat() {
        ++heartbeat.sequence;
        send(encode(heartbeat));
    }
    // Returns the newest answer that arrives within `time`; nullopt if there is none.
    std::optional<protocol::Answer> hear(std::chrono::milliseconds time) {
        std::optional<protocol::Answer> newest;
        while (socket_.wait_input(newest ? 0ms : time)) {
            const auto message = socket_.receive();
            if (!message) continue;
            auto answer = protocol::decode_answer(message->frames.back());
            EXPECT_TRUE(answer) << answer.error().message;
            if (answer) newest = *std::move(answer);
        }
        return newest;
    }
    // Sends heartbeats until `wanted` is true for an answer. Returns that answer.
    template <class Wanted>
    protocol::Answer until(Wanted wanted) {
        protocol::Answer found;
        EXPECT_TRUE(eventually([&] {
            beat();
            const auto answer = hear(200ms);
            if (!answer || !wanted(*answer)) return false;
            found = *answer;
            return true;
        }));
        return found;
    }
    void report(const AttemptKey& attempt, protocol::Phase phase, Outcome outcome = Outcome::Done) {
        protocol::RunningAttempt entry;
        entry.attempt = attempt;
        entry.phase = phase;
        entry.outcome = outcome;
        heartbeat.running = {entry};
    }

    protocol::Heartbeat heartbeat;
    std::function<std::string(const protocol::Heartbeat&)> encode =
        [](const protocol::Heartbeat& said) { return protocol::encode(said); };

  private:
    io::ZmqContext context_;
    io::ZmqSocket socket_;
};

// Forwards one TCP connection to a port, and records all bytes.
class WireTap {
  public:
    explicit WireTap(std::uint16_t target) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in any = address(0);
        EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
        EXPECT_EQ(::listen(listener_, 4), 0);
        socklen_t size = sizeof any;
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&any), &size);
        port = ntohs(any.sin_port);
        thread_ = std::thread([this, target] { pass(target); });
    }
    ~WireTap() {
        ended_ = true;
        thread_.join();
        ::close(listener_);
    }
    WireTap(const WireTap&) = delete;
    WireTap& operator=(const WireTap&) = delete;
    std::string seen() {
        const std::scoped_lock lock(mutex_);
        return seen_;
    }
    std::uint16_t port = 0;

  private:
    static sockaddr_in address(std::uint16_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return address;
    }
    bool readable(int fd) {
        pollfd item{fd, POLLIN, 0};
        return ::poll(&item, 1, 20) > 0;
    }
    bool copy(int from, int to) {
        if (!readable(from)) return true;
        char buffer[65536];
        const ssize_t n = ::recv(from, buffer, sizeof buffer, 0);
        if (n <= 0) return false;
        const std::scoped_lock lock(mutex_);
        seen_.append(buffer, static_cast<std::size_t>(n));
        return ::send(to, buffer, static_cast<std::size_t>(n), MSG_NOSIGNAL) == n;
    }
    void pass(std::uint16_t target) {
        while (!ended_) {
            if (!readable(listener_)) continue;
            const int near = ::accept(listener_, nullptr, nullptr);
            const int far = ::socket(AF_INET, SOCK_STREAM, 0);
            const sockaddr_in to = address(target);
            const bool up = ::connect(far, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
            while (up && !ended_ && copy(near, far) && copy(far, near)) {}
            ::close(near);
            ::close(far);
        }
    }

    int listener_;
    std::atomic<bool> ended_{false};
    std::mutex mutex_;
    std::string seen_;
    std::thread thread_;
};

}  // namespace roll
