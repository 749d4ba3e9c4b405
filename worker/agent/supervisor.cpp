#include "worker/agent/supervisor.hpp"

#include <algorithm>
#include <cerrno>
#include <sstream>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace roll::agent {
namespace {

constexpr int kReadsMax = 64;  // of one pipe a turn: a chatty program must not starve the rest

void unblock(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

// What does not fit now goes out later; a reader that never reads loses what is beyond a megabyte.
void write_lines(const io::Descriptor& to, std::string& unsent, const std::string& line) {
    constexpr std::size_t kUnsentMax = 1u << 20;
    if (unsent.size() + line.size() <= kUnsentMax) unsent += line;
    while (to && !unsent.empty()) {
        const ssize_t n = ::write(to.get(), unsent.data(), unsent.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            if (errno != EAGAIN) unsent.clear();  // nobody reads any more
            return;
        }
        unsent.erase(0, static_cast<std::size_t>(n));
    }
}

}  // namespace

void Supervisor::start(const Start& start) {
    const AttemptKey& key = start.order.attempt;
    if (const auto launched = launch(start); !launched) {
        const bool invalid = launched.error().code == ErrorCode::InvalidArgument ||
                             launched.error().code == ErrorCode::Corrupt;
        events_.push_back(
            StartFailed{key,
                        {invalid ? "invalid" : "infra", invalid ? protocol::kExitInvalid : 1,
                         launched.error().message}});
        events_.push_back(Gone{key});
    }
}

// The guard is in the run directory before it learns what to start.
Result<void> Supervisor::launch(const Start& start) {
    const AttemptKey& key = start.order.attempt;
    ROLL_TRY(const GuardPlan plan, plan_launch(start.order, site_));
    ROLL_TRY(Guarded guarded, spawn_guard(static_cast<int>(plan.programs.size())));
    guarded.leash.set(start.lease_ends, start.killed_at);
    const auto noted = run_directory_.set_guard(key, guarded.guard);
    if (!noted) {
        guarded.down.reset();  // it ends
        return tl::unexpected(noted.error());
    }
    guarded.unsent = encode(plan);
    guarded.unsent += '\n';
    write_lines(guarded.down, guarded.unsent, "");
    guarded_.emplace(key, std::move(guarded));
    return {};
}

Result<Supervisor::Guarded> Supervisor::spawn_guard(int programs) {
    ROLL_TRY(Leash leash, Leash::make());
    ROLL_TRY(io::Pipe down, io::make_pipe());
    ROLL_TRY(io::Pipe up, io::make_pipe());
    io::Spawn spawn;
    spawn.arguments = guard_;
    spawn.environment = site_.environment;
    spawn.directory = std::string("/");
    spawn.descriptors = {{down.read.get(), kGuardDown},
                         {STDERR_FILENO, STDERR_FILENO},
                         {up.write.get(), kGuardUp},
                         {leash.descriptor(), kGuardLeash}};
    std::vector<io::Descriptor> theirs;
    std::vector<Channel> channels;
    for (int i = 0; i < programs; ++i) {
        ROLL_TRY(io::Pipe input, io::make_pipe());
        ROLL_TRY(io::Pipe report, io::make_pipe());
        spawn.descriptors.emplace_back(input.read.get(), kGuardPrograms + 2 * i);
        spawn.descriptors.emplace_back(report.write.get(), kGuardPrograms + 2 * i + 1);
        unblock(input.write.get());
        unblock(report.read.get());
        Channel channel;
        channel.down = std::move(input.write);
        channel.up = std::move(report.read);
        channels.push_back(std::move(channel));
        theirs.push_back(std::move(input.read));
        theirs.push_back(std::move(report.write));
    }
    unblock(down.write.get());
    unblock(up.read.get());
    ROLL_TRY(const pid_t pid, io::spawn(spawn));
    Guarded guarded{.guard = pid, .leash = std::move(leash)};
    guarded.down = std::move(down.write);
    guarded.up = std::move(up.read);
    guarded.channels = std::move(channels);
    return guarded;
}

void Supervisor::set_leash(const SetLeash& leash) {
    const auto found = guarded_.find(leash.attempt);
    if (found != guarded_.end()) found->second.leash.set(leash.lease_ends, leash.killed_at);
}

void Supervisor::tell(const AttemptKey& key, const protocol::Command& command) {
    const auto found = guarded_.find(key);
    if (found == guarded_.end()) return;
    std::string line = protocol::encode(command);
    line += '\n';
    for (Channel& channel : found->second.channels) write_lines(channel.down, channel.unsent, line);
}

void Supervisor::order(const AttemptKey& key, const std::string& line) {
    const auto found = guarded_.find(key);
    if (found != guarded_.end()) write_lines(found->second.down, found->second.unsent, line);
}

void Supervisor::add_polled(std::vector<pollfd>& polled) const {
    for (const auto& [key, guarded] : guarded_) {
        if (guarded.up) polled.push_back({guarded.up.get(), POLLIN, 0});
        if (!guarded.unsent.empty()) polled.push_back({guarded.down.get(), POLLOUT, 0});
        for (const Channel& channel : guarded.channels)
            if (channel.up) polled.push_back({channel.up.get(), POLLIN, 0});
    }
}

std::vector<ProcessEvent> Supervisor::collect() {
    for (auto& [key, guarded] : guarded_) {
        write_lines(guarded.down, guarded.unsent, "");
        for (int rank = 0; rank < static_cast<int>(guarded.channels.size()); ++rank)
            collect_channel(key, rank, guarded.channels[rank]);
        collect_guard(key, guarded);
    }
    std::erase_if(guarded_, [](const auto& item) { return !item.second.up; });
    return std::exchange(events_, {});
}

void Supervisor::collect_channel(const AttemptKey& key, int rank, Channel& channel) {
    write_lines(channel.down, channel.unsent, "");
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

// What a program said before it ended is taken before its end.
void Supervisor::collect_guard(const AttemptKey& key, Guarded& guarded) {
    bool ended = false;
    for (;;) {
        pollfd ready{guarded.up.get(), POLLIN, 0};
        if (::poll(&ready, 1, 0) <= 0) break;
        if (guarded.lines.fill(guarded.up.get())) continue;
        ended = true;
        break;
    }
    std::vector<std::string> lines;
    while (auto line = guarded.lines.next()) lines.push_back(*std::move(line));
    if (!lines.empty() || ended) {
        for (int rank = 0; rank < static_cast<int>(guarded.channels.size()); ++rank)
            collect_channel(key, rank, guarded.channels[rank]);
    }
    for (const std::string& line : lines) take_line(key, line);
    if (ended) take_gone(key, guarded);
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
    } else if (what == "leash") {
        events_.push_back(LeashRanOut{key});
    } else if (what == "failed") {
        if (auto verdict = decode_verdict(std::string_view(line).substr(kFailed.size())))
            events_.push_back(StartFailed{key, *std::move(verdict)});
    }
}

// What a killed guard left became ours: roll-worker is a subreaper.
void Supervisor::reap_orphans() {
    for (const io::ProcessInfo& process : io::descendants(::getpid())) {
        const bool guard = std::ranges::any_of(
            guarded_, [&](const auto& item) { return item.second.guard == process.pid; });
        if (process.parent == ::getpid() && process.state == 'Z' && !guard)
            ::waitpid(process.pid, nullptr, WNOHANG);
    }
}

// A guard that ended by itself has left nothing. One that was killed may have left grandchildren.
void Supervisor::take_gone(const AttemptKey& key, Guarded& guarded) {
    int status = 0;
    const pid_t waited = ::waitpid(guarded.guard, &status, 0);
    if (waited != guarded.guard || !WIFEXITED(status)) {
        run_directory_.end_strays(key);
        reap_orphans();
    }
    guarded.up.reset();
    events_.push_back(Gone{key});
}

}  // namespace roll::agent
