// Many workers, each a connection of its own with CURVE on: how fast a rolld takes them all in,
// what it costs while they beat, and how fast they are all back after a restart. Prints; judges
// nothing.
//
//   many_workers DIR WORKERS SECONDS [BEAT_MS]
// DIR: the state directory of a running rolld, which is killed after so many seconds; who started
// it starts it again. BEAT_MS: 5000 if it is not said.
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
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

constexpr int kParts = 4;  // processes: a worker takes two descriptors here

// Between the processes.
struct Shared {
    std::chrono::milliseconds beat = 5s;
    std::atomic<std::uint64_t> incarnation{0};  // whose answers count: this one's or a newer one's
    std::array<std::atomic<int>, kParts> answered{};
};

struct FakeWorker {
    io::ZmqSocket socket;
    protocol::Heartbeat heartbeat;
    Clock::time_point beats_at;
    std::uint64_t answered_by = 0;  // rolld's incarnation
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

// Sends what is due and takes what has come.
void turn(FakeWorker& worker, std::chrono::milliseconds beat) {
    const auto now = Clock::now();
    if (now >= worker.beats_at) {
        ++worker.heartbeat.sequence;
        worker.socket.send({protocol::encode(worker.heartbeat)});
        worker.beats_at = now + beat;
    }
    while (const auto message = worker.socket.receive()) {
        const auto answer = protocol::decode_answer(message->frames.back());
        if (answer) worker.answered_by = answer->incarnation;
    }
}

std::unique_ptr<FakeWorker> make_worker(const io::ZmqContext& context, int number,
                                        std::chrono::milliseconds beat) {
    auto worker = std::make_unique<FakeWorker>(
        FakeWorker{io::ZmqSocket(context, io::ZmqType::Dealer), {}, Clock::now()});
    worker->heartbeat.session = "session-" + std::to_string(number);
    worker->heartbeat.node = "node-" + std::to_string(number);
    worker->heartbeat.slots = 8;
    worker->heartbeat.gpus = 8;
    worker->heartbeat.heard_recently = true;
    worker->heartbeat.beat_ms = static_cast<int>(beat.count());
    return worker;
}

// Every kParts-th worker, for ever.
Result<void> be_workers(const std::string& root, int part, int count, Shared& shared) {
    const io::StateDirectory directory(root);
    ROLL_TRY(const io::CurveKeys keys, io::load_curve_keys(directory.keys(), "worker"));
    ROLL_TRY(const std::string server, io::load_public_key(directory.keys() / "server.pub"));
    ROLL_TRY(const std::string endpoint, directory.read_endpoint());
    const io::ZmqContext context;
    std::vector<std::unique_ptr<FakeWorker>> workers;
    for (int i = part; i < count; i += kParts) {
        auto worker = make_worker(context, i, shared.beat);
        worker->socket.set_curve_client(keys, server);
        ROLL_TRY_VOID(worker->socket.connect(endpoint));
        worker->beats_at += shared.beat * i / count;
        workers.push_back(std::move(worker));
    }
    for (;; std::this_thread::sleep_for(20ms)) {
        int answered = 0;
        for (auto& worker : workers) {
            turn(*worker, shared.beat);
            answered += worker->answered_by >= shared.incarnation ? 1 : 0;
        }
        shared.answered[static_cast<std::size_t>(part)] = answered;
    }
}

// Seconds until all have an answer of this incarnation or a newer one.
double await_all(int count, std::uint64_t incarnation, Shared& shared) {
    const auto begin = Clock::now();
    for (auto& answered : shared.answered) answered = 0;
    shared.incarnation = incarnation;
    for (int all = 0; all < count; std::this_thread::sleep_for(5ms)) {
        all = 0;
        for (const auto& answered : shared.answered) all += answered;
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Of the rolld that runs now.
std::pair<double, double> use_of_rolld(const std::string& root) {
    const auto pid = read_file(io::StateDirectory(root).pid("rolld"));
    return pid ? use_of(std::stoi(*pid)) : std::pair(0.0, 0.0);
}

// The clients' part is as large and on the same cores: rolld's own is what a cluster would wait
// for.
void print_connected(const char* what, int count, double seconds, double cpu) {
    std::printf(
        "%s: %d workers connected and answered after %.1f s; rolld itself took %.1f s of a "
        "processor, %.2f ms a worker\n",
        what, count, seconds, cpu, cpu / count * 1e3);
}

Result<int> run(const std::string& root, int count, int seconds, Shared& shared) {
    ROLL_TRY(const std::string pid_text, read_file(io::StateDirectory(root).pid("rolld")));
    const int pid = std::stoi(pid_text);
    const double connected = await_all(count, 1, shared);
    const auto [cpu_before, memory_before] = use_of(pid);
    print_connected("start", count, connected, cpu_before);
    const auto steady = Clock::now();
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    const auto [cpu, memory] = use_of(pid);
    const double passed = std::chrono::duration<double>(Clock::now() - steady).count();
    std::printf("rolld with them: %.0f MB, %.1f %% of a core at a heartbeat each %lld ms\n", memory,
                (cpu - cpu_before) / passed * 100, static_cast<long long>(shared.beat.count()));
    std::fflush(stdout);
    ::kill(pid, SIGKILL);
    const double back = await_all(count, 2, shared);
    print_connected("killed and started again", count, back, use_of_rolld(root).first);
    return 0;
}

// Ends with the process that started it.
int be_part(const std::string& root, int part, int count, Shared& shared) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto done = be_workers(root, part, count, shared);
    if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: many_workers DIR WORKERS SECONDS [BEAT_MS]\n");
        return 2;
    }
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    const int count = std::atoi(argv[2]);
    void* const memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    Shared& shared = *new (memory) Shared;
    shared.incarnation = 1;
    if (argc > 4) shared.beat = std::chrono::milliseconds(std::atoi(argv[4]));
    for (int part = 0; part < kParts; ++part) {
        if (::fork() == 0) return be_part(argv[1], part, count, shared);
    }
    const auto done = run(argv[1], count, std::atoi(argv[3]), shared);
    if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
    return done ? *done : 1;
}
