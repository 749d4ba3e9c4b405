// Many workers in one process, each a connection of its own with CURVE on: how fast a rolld takes
// them all in, and what it costs while they beat. Prints; judges nothing.
//
//   many_workers DIR WORKERS [SECONDS]     DIR: the state directory of a running rolld
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/curve_keys.hpp"
#include "common/io/state_directory.hpp"
#include "common/io/zmq_socket.hpp"
#include "common/protocol/worker.hpp"

namespace {

using namespace roll;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kWorkersOfAContext = 2000;
constexpr auto kBeat = 5s;

struct FakeWorker {
    io::ZmqSocket socket;
    protocol::Heartbeat heartbeat;
    Clock::time_point beats_at;
    bool answered = false;
};

// CPU seconds and resident megabytes of a process.
std::pair<double, double> use_of(int pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string field;
    double ticks = 0;
    for (int i = 1; i <= 15 && stat >> field; ++i) {
        if (i >= 14) ticks += std::stod(field);
    }
    std::ifstream memory("/proc/" + std::to_string(pid) + "/statm");
    double pages = 0;
    memory >> pages >> pages;
    return {ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)),
            pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6};
}

// Sends what is due and takes what has come; how many have been answered since the start.
int turn(std::vector<std::unique_ptr<FakeWorker>>& workers) {
    int answered = 0;
    const auto now = Clock::now();
    for (auto& worker : workers) {
        if (now >= worker->beats_at) {
            ++worker->heartbeat.sequence;
            worker->socket.send({protocol::encode(worker->heartbeat)});
            worker->beats_at = now + kBeat;
        }
        while (worker->socket.receive()) worker->answered = true;
        answered += worker->answered ? 1 : 0;
    }
    return answered;
}

Result<int> run(const std::string& root, int count, int seconds) {
    const io::StateDirectory directory(root);
    ROLL_TRY(const io::CurveKeys keys, io::load_curve_keys(directory.keys(), "worker"));
    ROLL_TRY(const std::string server, io::load_public_key(directory.keys() / "server.pub"));
    ROLL_TRY(const std::string endpoint, directory.read_endpoint());
    ROLL_TRY(const std::string pid_text, read_file(directory.pid("rolld")));
    const int pid = std::stoi(pid_text);
    std::vector<std::unique_ptr<io::ZmqContext>> contexts;
    std::vector<std::unique_ptr<FakeWorker>> workers;
    const auto begin = Clock::now();
    for (int i = 0; i < count; ++i) {
        if (i % kWorkersOfAContext == 0) contexts.push_back(std::make_unique<io::ZmqContext>());
        auto worker = std::make_unique<FakeWorker>(
            FakeWorker{io::ZmqSocket(*contexts.back(), io::ZmqType::Dealer), {}, begin});
        worker->socket.set_curve_client(keys, server);
        ROLL_TRY_VOID(worker->socket.connect(endpoint));
        worker->heartbeat.session = "session-" + std::to_string(i);
        worker->heartbeat.node = "node-" + std::to_string(i);
        worker->heartbeat.slots = 8;
        worker->heartbeat.gpus = 8;
        worker->heartbeat.heard_recently = true;
        worker->beats_at = begin + kBeat * i / count;
        workers.push_back(std::move(worker));
    }
    while (turn(workers) < count) std::this_thread::sleep_for(5ms);
    std::printf("%d workers connected and answered: %.1f s\n", count,
                std::chrono::duration<double>(Clock::now() - begin).count());
    const auto [cpu_before, memory_before] = use_of(pid);
    const auto steady = Clock::now();
    while (Clock::now() < steady + std::chrono::seconds(seconds)) {
        turn(workers);
        std::this_thread::sleep_for(20ms);
    }
    const auto [cpu, memory] = use_of(pid);
    const double passed = std::chrono::duration<double>(Clock::now() - steady).count();
    std::printf("rolld with them: %.0f MB, %.1f %% of a core at a heartbeat each 5 s\n", memory,
                (cpu - cpu_before) / passed * 100);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: many_workers DIR WORKERS [SECONDS]\n");
        return 2;
    }
    const rlimit files{1'000'000, 1'000'000};
    if (::setrlimit(RLIMIT_NOFILE, &files) != 0) std::perror("setrlimit");
    const auto done = run(argv[1], std::atoi(argv[2]), argc > 3 ? std::atoi(argv[3]) : 20);
    if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
    return done ? *done : 1;
}
