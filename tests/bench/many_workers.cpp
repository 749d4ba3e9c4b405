// Measures rolld with many workers, each with its own connection and CURVE: how fast rolld connects
// them all, what their heartbeats cost, and how fast they are all back after a restart. Prints the
// numbers; has no limits.
//
//   many_workers DIR WORKERS SECONDS [BEAT_MS]
// DIR: the state directory of a running rolld. This program kills rolld after SECONDS; the caller
// must start rolld again. BEAT_MS: time between heartbeats, 5000 by default. The same workers first
// connect to a bare server, because the cost of wake-ups and of libzmq differs by half between
// machines, and between hours on one machine.
#include <algorithm>
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
#include "common/time.hpp"
#include "tests/bench/bare_server.hpp"
#include "worker/agent/core/heartbeat_grid.hpp"

namespace {

using namespace roll;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// number of processes; several, because the sockets of each worker take two descriptors of its
// process
constexpr int kParts = 4;

// Memory that the processes share.
struct Shared {
    std::chrono::milliseconds beat = 5s;
    // answers count from this incarnation of rolld or a newer one
    std::atomic<std::uint64_t> incarnation{0};
    std::array<std::atomic<int>, kParts> answered{};
};

struct FakeWorker {
    io::ZmqSocket socket;
    protocol::Heartbeat heartbeat;
    Clock::time_point beats_at;
};

// The workers of one process. Each turn looks only at workers whose heartbeat is due or whose
// answer is missing. In a cluster, a worker costs rolld's machine nothing between its heartbeats;
// here, walking all workers in each turn took most of the machine's time and caches.
struct Part {
    std::vector<std::unique_ptr<FakeWorker>> workers;  // in the order of their heartbeats
    std::vector<std::uint64_t> answered_by;  // by worker: rolld's incarnation in the last answer
    std::vector<std::size_t> waiting;
    std::size_t next = 0;  // index of the worker whose heartbeat is due next
};

// Returns the CPU seconds and the resident megabytes of a process.
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

// Aligns a heartbeat to the grid as roll-worker does.
Clock::time_point on_grid(Clock::time_point due, std::chrono::milliseconds beat) {
    const auto now = std::chrono::floor<std::chrono::milliseconds>(Clock::now().time_since_epoch());
    const auto wall =
        std::chrono::floor<std::chrono::milliseconds>(wall_clock_now().time_since_epoch());
    const auto due_ms = std::chrono::floor<std::chrono::milliseconds>(due.time_since_epoch());
    return Clock::time_point(agent::on_heartbeat_grid(due_ms, wall - now, beat));
}

void send_due(Part& part, std::chrono::milliseconds beat) {
    const auto now = Clock::now();
    for (; now >= part.workers[part.next]->beats_at;
         part.next = (part.next + 1) % part.workers.size()) {
        FakeWorker& worker = *part.workers[part.next];
        ++worker.heartbeat.sequence;
        worker.socket.send({protocol::encode(worker.heartbeat)});
        worker.beats_at = on_grid(now + beat, beat);
        part.waiting.push_back(part.next);
    }
}

// Takes the answers that have arrived. Every heartbeat gets an answer, unless it is lost with the
// rolld that received it.
void take_answers(Part& part) {
    std::erase_if(part.waiting, [&](std::size_t i) {
        FakeWorker& worker = *part.workers[i];
        bool answered = false;
        while (const auto message = worker.socket.receive()) {
            const auto answer = protocol::decode_answer(message->frames.back());
            if (!answer) continue;
            part.answered_by[i] = answer->incarnation;
            answered |= answer->sequence == worker.heartbeat.sequence;
        }
        return answered;
    });
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

// Runs every kParts-th worker. Returns only on an error.
Result<void> be_workers(const std::string& root, const std::string& endpoint, int part, int count,
                        Shared& shared) {
    const io::StateDirectory directory(root);
    ROLL_TRY(const io::CurveKeys keys, io::load_curve_keys(directory.keys(), "worker"));
    ROLL_TRY(const std::string server, io::load_public_key(directory.keys() / "server.pub"));
    const io::ZmqContext context;
    Part mine;
    for (int i = part; i < count; i += kParts) {
        auto worker = make_worker(context, i, shared.beat);
        worker->socket.set_curve_client(keys, server);
        ROLL_TRY_VOID(worker->socket.connect(endpoint));
        worker->beats_at = on_grid(worker->beats_at + shared.beat * i / count, shared.beat);
        mine.workers.push_back(std::move(worker));
        mine.answered_by.push_back(0);
    }
    for (;;) {
        const auto next = mine.workers[mine.next]->beats_at;
        std::this_thread::sleep_until(std::min(next, Clock::now() + 20ms));
        send_due(mine, shared.beat);
        take_answers(mine);
        const std::uint64_t wanted = shared.incarnation;
        shared.answered[static_cast<std::size_t>(part)] = static_cast<int>(std::ranges::count_if(
            mine.answered_by, [&](std::uint64_t by) { return by >= wanted; }));
    }
}

// Returns the seconds until all workers have an answer of this incarnation or a newer one.
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

// Returns the CPU seconds and resident megabytes of the rolld that runs now.
std::pair<double, double> use_of_rolld(const std::string& root) {
    const auto pid = read_file(io::StateDirectory(root).pid("rolld"));
    return pid ? use_of(std::stoi(*pid)) : std::pair(0.0, 0.0);
}

// Prints rolld's share of the CPU time. A cluster would wait only for this share. In this benchmark
// the workers use as much CPU time on the same cores.
void print_connected(const char* what, int count, double seconds, double cpu) {
    std::printf(
        "%s: %d workers connected and answered after %.1f s; rolld itself took %.1f s of a "
        "processor, %.2f ms a worker\n",
        what, count, seconds, cpu, cpu / count * 1e3);
}

void print_use(const char* what, int pid, int seconds, const Shared& shared) {
    const double before = use_of(pid).first;
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    const auto [cpu, memory] = use_of(pid);
    const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
    std::printf("%s with them: %.0f MB, %.1f %% of a core at a heartbeat each %lld ms\n", what,
                memory, (cpu - before) / passed * 100, static_cast<long long>(shared.beat.count()));
    std::fflush(stdout);
}

// Starts a process that calls `work`. The kernel kills it when its parent ends.
template <typename Work>
pid_t start(Work work) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const Result<void> done = work();
    if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
    std::_Exit(1);
}

std::vector<pid_t> start_workers(const std::string& root, const std::string& endpoint, int count,
                                 Shared& shared) {
    std::vector<pid_t> parts;
    for (int part = 0; part < kParts; ++part)
        parts.push_back(
            start([&, part] { return be_workers(root, endpoint, part, count, shared); }));
    return parts;
}

void kill_all(const std::vector<pid_t>& processes) {
    for (const pid_t pid : processes) ::kill(pid, SIGKILL);
    for (const pid_t pid : processes) ::waitpid(pid, nullptr, 0);
}

Result<void> run_bare(const std::string& root, int count, int seconds, Shared& shared) {
    const io::StateDirectory directory(root);
    ROLL_TRY(const io::CurveKeys keys, io::load_curve_keys(directory.keys(), "server"));
    const std::string endpoint = "ipc://" + root + "/bare";
    const pid_t server = start([&] { return bench::be_bare_server(keys, endpoint); });
    std::vector<pid_t> all = start_workers(root, endpoint, count, shared);
    await_all(count, 1, shared);
    print_use("a bare server", server, seconds, shared);
    all.push_back(server);
    kill_all(all);
    return {};
}

Result<void> run(const std::string& root, int count, int seconds, Shared& shared) {
    ROLL_TRY(const std::string endpoint, io::StateDirectory(root).read_endpoint());
    ROLL_TRY(const std::string pid_text, read_file(io::StateDirectory(root).pid("rolld")));
    const int pid = std::stoi(pid_text);
    const auto parts = start_workers(root, endpoint, count, shared);
    const double connected = await_all(count, 1, shared);
    print_connected("start", count, connected, use_of(pid).first);
    print_use("rolld", pid, seconds, shared);
    ::kill(pid, SIGKILL);
    const double back = await_all(count, 2, shared);
    print_connected("killed and started again", count, back, use_of_rolld(root).first);
    kill_all(parts);
    return {};
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
    const int seconds = std::atoi(argv[3]);
    auto done = run_bare(argv[1], count, seconds, shared);
    if (done) done = run(argv[1], count, seconds, shared);
    if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
    return done ? 0 : 1;
}
