#include "worker/agent/process/terminals.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace roll::agent {
namespace {

constexpr int kFramesPerSecond = 64;
constexpr Millis kFrameTime{1000 / kFramesPerSecond};
constexpr Millis kBurst = 16 * kFrameTime;
constexpr std::size_t kFrameBytes = 32 << 10;
constexpr std::size_t kTakenStep = protocol::kTerminalWindow / 4;
constexpr Millis kIdle{500};
// Time for which a stream stays open after its program has ended, if other processes hold the
// stream. In this time, the rest of the program's output is read from the kernel.
constexpr Millis kLastOutput{200};

void make_nonblocking(int fd) { ::fcntl(fd, F_SETFL, O_NONBLOCK); }

void set_size(int fd, int rows, int columns) {
    if (rows <= 0 && columns <= 0) return;
    winsize size{};
    ::ioctl(fd, TIOCGWINSZ, &size);
    if (rows > 0) size.ws_row = static_cast<unsigned short>(rows);
    if (columns > 0) size.ws_col = static_cast<unsigned short>(columns);
    ::ioctl(fd, TIOCSWINSZ, &size);
}

// Both ends of a program's streams: the ends that roll-worker holds, and the ends that the program
// gets.
struct Ends {
    io::Descriptor input{};
    io::Descriptor output{};
    io::Descriptor errors{};
    std::vector<io::Descriptor> passed{};
};

Result<Ends> open_terminal(const protocol::TerminalOrder& order) {
    Ends ends;
    ends.input = io::Descriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    std::array<char, 64> name{};
    const int master = ends.input.get();
    if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0 ||
        ::ptsname_r(master, name.data(), name.size()) != 0)
        return fail(ErrorCode::Unavailable,
                    "cannot open a terminal: " + std::generic_category().message(errno));
    io::Descriptor slave(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    ends.output = io::Descriptor(::fcntl(master, F_DUPFD_CLOEXEC, 0));
    if (!slave || !ends.output)
        return fail(ErrorCode::Unavailable,
                    "cannot open a terminal: " + std::generic_category().message(errno));
    set_size(master, order.rows, order.columns);
    make_nonblocking(master);
    ends.passed.push_back(std::move(slave));
    return ends;
}

Result<Ends> open_pipes() {
    ROLL_TRY(io::Pipe input, io::make_pipe());
    ROLL_TRY(io::Pipe output, io::make_pipe());
    ROLL_TRY(io::Pipe errors, io::make_pipe());
    for (const int fd : {input.write.get(), output.read.get(), errors.read.get()})
        make_nonblocking(fd);
    Ends ends{std::move(input.write), std::move(output.read), std::move(errors.read), {}};
    ends.passed.push_back(std::move(input.read));
    ends.passed.push_back(std::move(output.write));
    ends.passed.push_back(std::move(errors.write));
    return ends;
}

}  // namespace

void Terminals::take(protocol::TerminalOrder order, Supervisor& supervisor, Instant now) {
    if (order.start) start(order, supervisor, now);
    const auto found = terminals_.find(order.terminal);
    if (found == terminals_.end()) {
        protocol::TerminalNews gone{.terminal = order.terminal};
        gone.trouble = "the terminal no longer exists on the node";
        if (!order.close) news_.push_back(std::move(gone));
        return;
    }
    Terminal& terminal = found->second;
    terminal.heard = now;
    terminal.limit = std::max(terminal.limit, order.limit);
    if (terminal.input) set_size(terminal.input.get(), order.rows, order.columns);
    const bool has_gap = !order.input.empty() && order.at != terminal.received;
    const bool is_too_much =
        terminal.unwritten.size() + order.input.size() > 2 * protocol::kTerminalWindow;
    if (order.close || has_gap || is_too_much) {
        supervisor.close_shell(terminal.attempt, order.terminal);
        if (!order.close) {
            terminal.trouble = "a part of the input did not reach the program";
            add_news(order.terminal, terminal).trouble = terminal.trouble;
        }
        terminals_.erase(found);
        return;
    }
    terminal.received += order.input.size();
    if (terminal.input) terminal.unwritten += order.input;
    terminal.end_of_input |= order.end_of_input;
}

void Terminals::start(const protocol::TerminalOrder& order, Supervisor& supervisor, Instant now) {
    Terminal terminal{.attempt = order.attempt, .heard = now};
    auto ends = order.start->terminal ? open_terminal(order) : open_pipes();
    auto begun = ends ? supervisor.open_shell(order, ends->passed)
                      : Result<void>(tl::unexpected(ends.error()));
    if (!begun) {
        terminal.trouble = begun.error().message;
    } else {
        terminal.input = std::move(ends->input);
        terminal.output = std::move(ends->output);
        terminal.errors = std::move(ends->errors);
    }
    terminals_[order.terminal] = std::move(terminal);
}

void Terminals::on_ended(const ShellEnded& ended) {
    const auto found = terminals_.find(ended.terminal);
    if (found == terminals_.end()) return;
    found->second.exit = ended.exit;
    found->second.trouble = ended.trouble;
}

void Terminals::on_gone(const AttemptKey& attempt) {
    for (auto& [id, terminal] : terminals_)
        if (terminal.attempt == attempt && !terminal.ended())
            terminal.trouble = "the job's attempt has ended";
}

protocol::TerminalNews& Terminals::add_news(std::uint64_t id, Terminal& terminal) {
    terminal.reported = terminal.received - terminal.unwritten.size();
    news_.push_back({.terminal = id, .at = terminal.sent, .taken = terminal.reported});
    return news_.back();
}

void Terminals::write_input(Terminal& terminal) {
    while (terminal.input && !terminal.unwritten.empty()) {
        const ssize_t n =
            ::write(terminal.input.get(), terminal.unwritten.data(), terminal.unwritten.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) {  // the program has closed its input
            terminal.unwritten.clear();
            terminal.input.reset();
        } else {
            terminal.unwritten.erase(0, static_cast<std::size_t>(n));
        }
    }
    if (terminal.end_of_input) terminal.input.reset();
}

bool Terminals::may_send(Instant now) const { return next_frame_ - kBurst <= now; }

// Sends a part of a stream. Returns true if the stream has no more output now.
bool Terminals::read_output(std::uint64_t id, Terminal& terminal, io::Descriptor& from,
                            Instant now) {
    while (from) {
        const std::uint64_t room = terminal.limit - std::min(terminal.limit, terminal.sent);
        if (room == 0 || !may_send(now)) return false;
        std::string bytes(std::min<std::size_t>(room, kFrameBytes), '\0');
        std::size_t size = 0;
        bool empty = false;
        while (size < bytes.size() && !empty) {
            const ssize_t n = ::read(from.get(), bytes.data() + size, bytes.size() - size);
            if (n < 0 && errno == EINTR) continue;
            empty = n <= 0;
            if (n > 0) size += static_cast<std::size_t>(n);
            // reading a terminal that no process has open gives EIO
            if (n == 0 || (n < 0 && errno != EAGAIN)) from.reset();
        }
        if (size > 0) {
            bytes.resize(size);
            protocol::TerminalNews& news = add_news(id, terminal);
            news.output = std::move(bytes);
            news.errors = &from == &terminal.errors;
            terminal.sent += size;
            next_frame_ = std::max(next_frame_, now) + kFrameTime;
        }
        if (empty) return true;
    }
    return true;
}

void Terminals::tell_taken(std::uint64_t id, Terminal& terminal) {
    const std::uint64_t taken = terminal.received - terminal.unwritten.size();
    if (taken - terminal.reported >= kTakenStep) add_news(id, terminal);
}

std::vector<protocol::TerminalNews> Terminals::collect(Supervisor& supervisor, Instant now) {
    for (auto it = terminals_.begin(); it != terminals_.end();) {
        auto& [id, terminal] = *it;
        bool over = now - terminal.heard >= protocol::kTerminalPatience;
        if (over && !terminal.ended()) supervisor.close_shell(terminal.attempt, id);
        write_input(terminal);
        const bool output_read = read_output(id, terminal, terminal.output, now);
        const bool errors_read = read_output(id, terminal, terminal.errors, now);
        tell_taken(id, terminal);
        if (terminal.ended() && !terminal.ended_at) terminal.ended_at = now;
        const bool closed = !terminal.output && !terminal.errors;
        const bool waited = terminal.ended_at && now - *terminal.ended_at >= kLastOutput;
        if (!over && terminal.ended() && output_read && errors_read && (closed || waited)) {
            protocol::TerminalNews& last = add_news(id, terminal);
            last.exit = terminal.exit;
            last.trouble = terminal.trouble;
            over = true;
        }
        it = over ? terminals_.erase(it) : std::next(it);
    }
    return std::exchange(news_, {});
}

void Terminals::add_polled(std::vector<pollfd>& polled, Instant now) const {
    for (const auto& [id, terminal] : terminals_) {
        if (terminal.input && !terminal.unwritten.empty())
            polled.push_back({terminal.input.get(), POLLOUT, 0});
        if (terminal.sent >= terminal.limit || !may_send(now)) continue;
        for (const io::Descriptor* stream : {&terminal.output, &terminal.errors})
            if (*stream) polled.push_back({stream->get(), POLLIN, 0});
    }
}

Millis Terminals::pause(Instant now) const {
    if (!terminals_.empty() && !may_send(now)) return next_frame_ - kBurst - now;
    const bool ending =
        std::ranges::any_of(terminals_, [](const auto& one) { return one.second.ended(); });
    return ending ? kLastOutput / 4 : kIdle;
}

}  // namespace roll::agent
