#include "worker/agent/process/supervisor.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>
#include <span>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/io/passing.hpp"
#include "worker/agent/process/clock.hpp"
#include "worker/agent/process/guard.hpp"
#include "worker/agent/process/guard_talk.hpp"

namespace roll::agent {
namespace {

constexpr std::size_t kIdleMax = 16;  // maximum number of idle guards
constexpr Millis kOrphanTime{10000};  // longest wait from SIGKILL until orphans have ended
// Maximum number of reads from a pipe in one pass of the loop. Without this limit, a program with
// much output would delay other programs.
constexpr int kReadsMax = 64;

// Descriptors to send to a guard.
struct Passed {
    std::vector<io::Descriptor> held{};
    std::vector<int> numbers{};
    void add(io::Descriptor descriptor) {
        numbers.push_back(descriptor.get());
        held.push_back(std::move(descriptor));
    }
};

// Makes a new descriptor non-blocking. F_SETFL overwrites no other flags, because a new descriptor
// has none.
void unblock(int fd) { ::fcntl(fd, F_SETFL, O_NONBLOCK); }

// Writes as much of `unsent` as the pipe or socket accepts now, and removes that part from
// `unsent`.
void write_on(const io::Descriptor& to, std::string& unsent) {
    while (to && !unsent.empty()) {
        const ssize_t n = ::write(to.get(), unsent.data(), unsent.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            // drop the text, because the reader has closed its end
            if (errno != EAGAIN) unsent.clear();
            return;
        }
        unsent.erase(0, static_cast<std::size_t>(n));
    }
}

// Sends a line to a program. If the program does not read, lines beyond 1 MiB are dropped.
void tell_program(const io::Descriptor& to, std::string& unsent, const std::string& line) {
    constexpr std::size_t kUnsentMax = 1u << 20;
    if (unsent.size() + line.size() <= kUnsentMax) unsent += line;
    write_on(to, unsent);
}

// Sends `line` with the descriptors `all`. A message carries a limited number of descriptors, so a
// longer list needs several messages. The text of all messages except the last is a single space,
// which the JSON parser skips.
Result<void> send_plan(const io::Descriptor& to, const std::string& line, std::span<const int> all,
                       std::string& unsent) {
    ssize_t sent = 0;
    while (all.size() > io::kPassedMax && sent >= 0) {
        sent = io::send_with(to, " ", all.first(io::kPassedMax));
        all = all.subspan(io::kPassedMax);
    }
    if (sent >= 0) sent = io::send_with(to, line, all);
    if (sent < 0)
        return fail(ErrorCode::Failed,
                    "cannot write to the process that supervises a job (guard): " +
                        std::generic_category().message(errno));
    unsent = line.substr(static_cast<std::size_t>(sent));
    return {};
}

}  // namespace

void Supervisor::start(const Start& start) {
    const AttemptKey& key = start.order.attempt;
    if (const auto launched = launch(start); !launched) {
        const bool invalid = launched.error().code == ErrorCode::InvalidArgument ||
                             launched.error().code == ErrorCode::Corrupt;
        events_.push_back(
            StartFailed{key,
                        {invalid ? Outcome::Invalid : Outcome::Infra,
                         invalid ? protocol::kExitInvalid : 1, launched.error().message}});
        events_.push_back(Gone{key});
    }
}

// Starts an attempt on a guard. Records the guard in the run directory before it sends the plan to
// the guard.
Result<void> Supervisor::launch(const Start& start) {
    const AttemptKey& key = start.order.attempt;
    ROLL_TRY(GuardPlan plan, plan_launch(start.order, site_));
    Passed passed;
    std::vector<Channel> channels(plan.programs.size());
    for (Channel& channel : channels) {
        ROLL_TRY(io::Pipe input, io::make_pipe());
        ROLL_TRY(io::Pipe report, io::make_pipe());
        unblock(input.write.get());
        unblock(report.read.get());
        channel.down = std::move(input.write);
        channel.up = std::move(report.read);
        passed.add(std::move(input.read));
        passed.add(std::move(report.write));
    }
    ROLL_TRY(plan.cgroup, wall_.enclose(key));
    ROLL_TRY(LimitCgroups groups,
             limiter_.enclose(key, {start.order.memory, start.order.cpus}, plan.cgroup));
    plan.memory = {start.order.memory, std::move(groups.memory)};
    plan.cpu_cgroup = std::move(groups.cpu);
    ROLL_TRY(GuardProcess guard, take_guard());
    guard.leash.set(start.lease_ends, start.killed_at);
    auto told = run_directory_.set_guard(key, guard.pid, guard.started, plan.after);
    if (told) told = send_plan(guard.socket, encode(plan) + '\n', passed.numbers, guard.unsent);
    if (told)
        guarded_.emplace(key,
                         Guarded{std::move(guard), std::move(channels), std::move(plan.after)});
    else
        retire(std::move(guard));
    return told;
}

// Returns an idle guard that is alive, or a new one if there is none.
Result<Supervisor::GuardProcess> Supervisor::take_guard() {
    collect_idle();
    if (idle_.empty()) return spawn_guard();
    GuardProcess guard = std::move(idle_.back());
    idle_.pop_back();
    return guard;
}

Result<Supervisor::GuardProcess> Supervisor::spawn_guard() {
    ROLL_TRY(Leash leash, Leash::make());
    ROLL_TRY(auto ends, io::make_socket_pair());
    io::Spawn spawn;
    spawn.arguments = guard_;
    spawn.environment = site_.environment;
    spawn.directory = std::string("/");
    spawn.descriptors = {{ends.second.get(), kGuardSocket},
                         {STDERR_FILENO, STDERR_FILENO},
                         {leash.descriptor(), kGuardLeash}};
    if (reaper_.descriptor() >= 0)
        spawn.descriptors.emplace_back(reaper_.descriptor(), kGuardReaper);
    spawn.pid_namespace = wall_.kind() == WallKind::Namespace;
    unblock(ends.first.get());
    GuardProcess guard{.leash = std::move(leash)};
    ROLL_TRY(guard.pid, io::spawn(spawn));
    if (const auto process = io::find_process(guard.pid)) guard.started = process->started;
    guard.socket = std::move(ends.first);
    return guard;
}

// Ends a guard. The guard's socket is closed when `guard` is destroyed, and the guard then exits.
void Supervisor::retire(GuardProcess guard) { leaving_.push_back(guard.pid); }

void Supervisor::stand_by() {
    reaper_.keep(boot_now());
    if (!idle_.empty() || std::ssize(guarded_) >= site_.slots) return;
    if (auto guard = spawn_guard()) idle_.push_back(*std::move(guard));
}

// Removes guards that have ended, and discards the output of idle guards, because this output
// belongs to attempts that are gone.
void Supervisor::collect_idle() {
    for (GuardProcess& guard : idle_) {
        pollfd ready{guard.socket.get(), POLLIN, 0};
        if (::poll(&ready, 1, 0) <= 0 || guard.lines.fill(guard.socket.get())) continue;
        leaving_.push_back(guard.pid);
        guard.socket.reset();
    }
    std::erase_if(idle_, [](const GuardProcess& guard) { return !guard.socket; });
    std::erase_if(leaving_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
}

void Supervisor::set_leash(const SetLeash& leash) {
    const auto found = guarded_.find(leash.attempt);
    if (found != guarded_.end()) found->second.guard.leash.set(leash.lease_ends, leash.killed_at);
}

void Supervisor::tell(const AttemptKey& key, const protocol::Command& command) {
    const auto found = guarded_.find(key);
    if (found == guarded_.end()) return;
    std::string line = protocol::encode(command);
    line += '\n';
    for (Channel& channel : found->second.channels)
        tell_program(channel.down, channel.unsent, line);
}

void Supervisor::order(const AttemptKey& key, const std::string& line) {
    const auto found = guarded_.find(key);
    if (found == guarded_.end()) return;
    GuardProcess& guard = found->second.guard;
    // The unsent text has no limit, because an order to kill must not be dropped.
    guard.unsent += line;
    write_on(guard.socket, guard.unsent);
}

Result<void> Supervisor::open_shell(const protocol::TerminalOrder& order,
                                    const std::vector<io::Descriptor>& passed) {
    const auto found = guarded_.find(order.attempt);
    if (found == guarded_.end())
        return fail(ErrorCode::NotFound, "the job's programs are not running on this node");
    GuardProcess& guard = found->second.guard;
    write_on(guard.socket, guard.unsent);
    if (!guard.socket || !guard.unsent.empty())
        return fail(ErrorCode::Unavailable,
                    "the job is still starting on this node; try again in a few seconds");
    std::vector<int> numbers;
    for (const io::Descriptor& one : passed) numbers.push_back(one.get());
    const std::string line =
        "shell " + std::to_string(passed.size()) + " " + protocol::encode(order) + "\n";
    return send_plan(guard.socket, line, numbers, guard.unsent);
}

void Supervisor::add_polled(std::vector<pollfd>& polled) const {
    for (const auto& [key, guarded] : guarded_) {
        const GuardProcess& guard = guarded.guard;
        const short events = guard.unsent.empty() ? POLLIN : POLLIN | POLLOUT;
        polled.push_back({guard.socket.get(), events, 0});
        for (const Channel& channel : guarded.channels)
            if (channel.up) polled.push_back({channel.up.get(), POLLIN, 0});
    }
    for (const GuardProcess& guard : idle_) polled.push_back({guard.socket.get(), POLLIN, 0});
}

std::vector<ProcessEvent> Supervisor::collect() {
    for (auto& [key, guarded] : guarded_) {
        write_on(guarded.guard.socket, guarded.guard.unsent);
        for (int rank = 0; rank < static_cast<int>(guarded.channels.size()); ++rank)
            collect_channel(key, rank, guarded.channels[rank]);
        collect_guard(key, guarded);
    }
    for (auto it = guarded_.begin(); it != guarded_.end();) {
        if (!it->second.gone) {
            ++it;
            continue;
        }
        wall_.open(it->first);
        limiter_.open(it->first);
        if (it->second.guard.socket) idle_.push_back(std::move(it->second.guard));
        it = guarded_.erase(it);
    }
    for (; idle_.size() > kIdleMax; idle_.pop_back()) retire(std::move(idle_.back()));
    collect_idle();
    return std::exchange(events_, {});
}

void Supervisor::collect_channel(const AttemptKey& key, int rank, Channel& channel) {
    write_on(channel.down, channel.unsent);
    for (int reads = 0; channel.up && reads < kReadsMax; ++reads) {
        pollfd ready{channel.up.get(), POLLIN, 0};
        if (::poll(&ready, 1, 0) <= 0) break;
        if (!channel.lines.fill(channel.up.get())) channel.up.reset();
    }
    while (const auto line = channel.lines.next()) {
        auto report = protocol::decode_report(*line);
        if (report)
            events_.push_back(Reported{key, rank, *std::move(report)});
        else if (!std::exchange(channel.junk_told, true))
            events_.push_back(Junk{key, rank, line->substr(0, 200)});
    }
}

// Handles the lines that a guard has sent. First reads the programs' own reports, so that all
// reports of a program are handled before its exit.
void Supervisor::collect_guard(const AttemptKey& key, Guarded& guarded) {
    bool ended = false;
    for (;;) {
        pollfd ready{guarded.guard.socket.get(), POLLIN, 0};
        if (::poll(&ready, 1, 0) <= 0) break;
        if (guarded.guard.lines.fill(guarded.guard.socket.get())) continue;
        ended = true;
        break;
    }
    std::vector<std::string> lines;
    while (auto line = guarded.guard.lines.next()) lines.push_back(*std::move(line));
    if (!lines.empty() || ended) {
        for (int rank = 0; rank < static_cast<int>(guarded.channels.size()); ++rank)
            collect_channel(key, rank, guarded.channels[rank]);
    }
    for (const std::string& line : lines) {
        guarded.gone |= line == "gone";
        take_line(key, line);
    }
    if (ended) bury(key, guarded);
    if (guarded.gone) events_.push_back(Gone{key});
}

void Supervisor::take_line(const AttemptKey& key, const std::string& line) {
    constexpr std::string_view kFailed = "failed ";
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "exit") {
        int rank = 0;
        std::string how;
        ExitStatus exit;
        words >> rank >> how >> exit.number;
        exit.signaled = how == "signal";
        events_.push_back(Exited{key, rank, exit});
    } else if (what == "matched") {
        Matched matched{key, {}};
        for (int pattern = 0; words >> pattern;) matched.patterns.push_back(pattern);
        events_.push_back(std::move(matched));
    } else if (what == "usage") {
        Usage usage;
        words >> usage.cpu_ms >> usage.memory_peak >> usage.wall_ms >> usage.disk_read >>
            usage.disk_written;
        events_.push_back(Used{key, usage});
    } else if (what == "memory") {
        MemoryUsed used{key};
        words >> used.bytes;
        events_.push_back(used);
    } else if (what == "cpu") {
        CpuUsed used{key};
        words >> used.ms;
        events_.push_back(used);
    } else if (what == "shell") {
        ShellEnded ended{key, 0, std::nullopt, {}};
        int status = 0;
        words >> ended.terminal >> what >> std::ws;
        if (what == "exit" && words >> status)
            ended.exit = status;
        else
            std::getline(words, ended.trouble);
        events_.push_back(std::move(ended));
    } else if (what == "leash") {
        events_.push_back(LeashRanOut{key});
    } else if (what == "failed") {
        if (auto verdict = decode_verdict(std::string_view(line).substr(kFailed.size())))
            events_.push_back(StartFailed{key, *std::move(verdict)});
    }
}

// Ends the processes that roll-worker inherited from a killed guard as a subreaper: all children of
// roll-worker except the guards and the reaper.
void Supervisor::end_orphans() {
    std::set<pid_t> ours(leaving_.begin(), leaving_.end());
    ours.insert(reaper_.pid());
    for (const auto& [key, guarded] : guarded_) ours.insert(guarded.guard.pid);
    for (const GuardProcess& guard : idle_) ours.insert(guard.pid);
    const pid_t self = ::getpid();
    for (const Instant until = boot_now() + kOrphanTime; boot_now() < until; ::usleep(2000)) {
        std::set<pid_t> orphans;
        for (const io::ProcessInfo& process : io::descendants(self)) {
            const bool orphan = process.parent == self && !ours.contains(process.pid);
            if (!orphan && !orphans.contains(process.parent)) continue;
            orphans.insert(process.pid);
            ::kill(process.pid, SIGKILL);
            if (process.parent == self) ::waitpid(process.pid, nullptr, WNOHANG);
        }
        if (orphans.empty()) return;
    }
}

// Starts a program that the attempt's guard cannot run any more, because the guard was killed. Does
// not wait for the program's end.
void Supervisor::run_after(const Program& program) {
    io::Spawn spawn;
    spawn.arguments = program.arguments;
    spawn.environment = site_.environment;
    if (const auto pid = io::spawn(spawn)) leaving_.push_back(*pid);
}

// Handles the end of a guard. A guard that exits normally leaves no process. A killed guard may
// leave descendants, which are ended here.
void Supervisor::bury(const AttemptKey& key, Guarded& guarded) {
    int status = 0;
    const pid_t waited = ::waitpid(guarded.guard.pid, &status, 0);
    if (waited != guarded.guard.pid || !WIFEXITED(status)) {
        wall_.end(key);
        run_directory_.end_strays(key);
        end_orphans();
        for (const Program& program : guarded.after) run_after(program);
    }
    guarded.guard.socket.reset();
    guarded.gone = true;
}

}  // namespace roll::agent
