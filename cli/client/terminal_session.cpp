#include "cli/client/terminal_session.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/client/context.hpp"
#include "common/base64.hpp"
#include "common/io/signals.hpp"
#include "common/protocol/shell_operations.hpp"
#include "common/protocol/terminal.hpp"

namespace roll::cli {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kReadWait{5000};  // maximum time until rolld answers a read
constexpr milliseconds kSilenceMax{15'000};
constexpr std::size_t kInputBytes = 16 << 10;

// While this object exists, the terminal on standard input is in raw mode and passes on every key.
class RawMode {
  public:
    explicit RawMode(bool wanted) : active_(wanted && ::tcgetattr(STDIN_FILENO, &before_) == 0) {
        if (!active_) return;
        termios raw = before_;
        ::cfmakeraw(&raw);
        ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    }
    RawMode(const RawMode&) = delete;
    RawMode& operator=(const RawMode&) = delete;
    ~RawMode() {
        if (active_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
    }

  private:
    termios before_{};
    bool active_;
};

// Finds the keys that end a session: `~.` after Enter. `~~` stands for `~`.
class EscapeKeys {
  public:
    // Removes escapes from `bytes`. Returns true if the session must end.
    bool take(std::string& bytes) {
        std::string kept;
        for (const char key : bytes) {
            if (tilde_ && key == '.') return true;
            if (tilde_ && key != '~') kept += '~';
            const bool begins = !tilde_ && line_begins_ && key == '~';
            tilde_ = begins;
            line_begins_ = key == '\r' || key == '\n';
            if (!begins) kept += key;
        }
        bytes = std::move(kept);
        return false;
    }

  private:
    bool line_begins_ = true;
    bool tilde_ = false;
};

// Output that standard output or standard error has not accepted yet
struct Outgoing {
    int to = STDOUT_FILENO;
    std::string bytes{};
};

class Session {
  public:
    Session(Daemon& daemon, std::uint64_t terminal, const io::Descriptor& signals, bool raw)
        : client_(daemon.client()),
          terminal_(terminal),
          signals_(signals),
          raw_(raw) {}

    Result<int> run() {
        const RawMode raw(raw_);
        while (!status_ || !output_.empty()) {
            if (!status_) ROLL_TRY_VOID(talk());
            if (!status_ || !output_.empty()) ROLL_TRY_VOID(wait_and_serve());
        }
        if (!trouble_.empty()) return fail(ErrorCode::Failed, trouble_);
        return *status_;
    }

  private:
    Result<void> post(protocol::ShellWriteArgs args) {
        args.terminal = terminal_;
        args.at = sent_;
        ROLL_TRY(const std::uint64_t id, client_.post(protocol::ShellWriteArgs::kOperation.name,
                                                      protocol::arguments_json(std::move(args))));
        writes_[id] = posted_at_ = Steady::now();
        return {};
    }

    Result<void> ask_for_output() {
        const protocol::ShellReadArgs args{terminal_, received_,
                                           static_cast<int>(kReadWait.count())};
        ROLL_TRY(read_id_, client_.post(protocol::ShellReadArgs::kOperation.name,
                                        protocol::arguments_json(args)));
        posted_at_ = Steady::now();
        return {};
    }

    Result<void> talk() {
        if (!read_id_ && output_.empty()) ROLL_TRY_VOID(ask_for_output());
        ROLL_TRY_VOID(keep_alive());
        return take_replies();
    }

    // Tells rolld that this client still exists while standard output accepts no data. Fails if
    // rolld does not answer.
    Result<void> keep_alive() {
        const auto now = Steady::now();
        const bool read_late = read_id_ && now - posted_at_ >= kReadWait + kSilenceMax;
        const bool write_late = !writes_.empty() && now - writes_.begin()->second >= kSilenceMax;
        if (read_late || write_late) return client_.silent(kSilenceMax);
        if (!read_id_ && now - posted_at_ >= kReadWait) return post({});
        return {};
    }

    Result<void> take_replies() {
        while (auto posted = client_.next_reply(milliseconds(1))) {
            const bool is_read = read_id_ == posted->id;
            if (writes_.erase(posted->id) == 0 && !is_read) continue;
            if (is_read) read_id_.reset();
            if (!posted->reply) return tl::unexpected(posted->reply.error());
            if (!is_read) continue;
            ROLL_TRY_VOID(take_output(*posted->reply));
            if (!output_.empty() || status_) return {};
            ROLL_TRY_VOID(ask_for_output());
        }
        if (client_.descriptor() < 0) return client_.silent(kSilenceMax);
        return {};
    }

    Result<void> take_output(const Json& reply) {
        for (const Json& chunk : reply.value("chunks", Json::array())) {
            auto bytes = from_base64(chunk.value("data", std::string{}));
            if (!bytes)
                return fail(ErrorCode::Corrupt, "rolld sent output that is not base64",
                            "rollctl doctor");
            output_.push_back(
                {chunk.value("errors", false) ? STDERR_FILENO : STDOUT_FILENO, *std::move(bytes)});
        }
        received_ = reply.value("end", received_);
        taken_ = reply.value("taken", taken_);
        if (const Json exit = reply.value("exit", Json()); exit.is_number_integer())
            status_ = exit.get<int>();
        trouble_ = reply.value("trouble", std::string{});
        if (!trouble_.empty()) status_ = 1;
        return {};
    }

    // Waits until a signal, input, a reply of rolld or the output is ready, and handles what is
    // ready. Waits at most one second.
    Result<void> wait_and_serve() {
        const bool has_room = sent_ < taken_ + protocol::kTerminalWindow - kInputBytes;
        const bool reads_input = !status_ && !input_ended_ && has_room;
        std::array<pollfd, 4> polled{{{status_ ? -1 : client_.descriptor(), POLLIN, 0},
                                      {signals_.get(), POLLIN, 0},
                                      {reads_input ? STDIN_FILENO : -1, POLLIN, 0},
                                      {output_.empty() ? -1 : output_.front().to, POLLOUT, 0}}};
        ::poll(polled.data(), polled.size(), 1000);
        if (polled[3].revents != 0) ROLL_TRY_VOID(write_output());
        if (polled[1].revents != 0) ROLL_TRY_VOID(take_signals());
        if (polled[2].revents != 0) ROLL_TRY_VOID(send_input());
        return {};
    }

    Result<void> write_output() {
        Outgoing& out = output_.front();
        // poll() has reported the descriptor as ready, so a small write to a pipe or a terminal
        // does not block.
        const ssize_t n =
            ::write(out.to, out.bytes.data(), std::min<std::size_t>(out.bytes.size(), 4096));
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            ROLL_TRY_VOID(post({.close = true}));
            return fail(ErrorCode::Failed,
                        "cannot write the output of the program, so Roll ends the program");
        }
        if (n > 0) out.bytes.erase(0, static_cast<std::size_t>(n));
        if (out.bytes.empty()) output_.pop_front();
        return {};
    }

    Result<void> take_signals() {
        while (const auto signal = io::next_signal(signals_)) {
            if (*signal == SIGWINCH && raw_) {
                const TerminalSize size = terminal_size();
                ROLL_TRY_VOID(post({.rows = static_cast<int>(size.rows),
                                    .columns = static_cast<int>(size.columns)}));
            } else if (*signal != SIGWINCH) {
                ROLL_TRY_VOID(end_by_user(128 + *signal));
            }
        }
        return {};
    }

    Result<void> end_by_user(int status) {
        status_ = status;
        output_.clear();
        return post({.close = true});
    }

    Result<void> send_input() {
        std::array<char, kInputBytes> chunk;  // NOLINT: filled by read
        const ssize_t n = ::read(STDIN_FILENO, chunk.data(), chunk.size());
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) return {};
        if (n <= 0) {
            input_ended_ = true;
            return raw_ ? end_by_user(128 + SIGHUP) : post({.end = true});
        }
        std::string bytes(chunk.data(), static_cast<std::size_t>(n));
        if (raw_ && escape_.take(bytes)) return end_by_user(128 + SIGHUP);
        if (bytes.empty()) return {};
        ROLL_TRY_VOID(post({.data = to_base64(bytes)}));
        sent_ += bytes.size();
        return {};
    }

    io::Client& client_;
    std::uint64_t terminal_;
    const io::Descriptor& signals_;
    bool raw_;
    EscapeKeys escape_{};
    std::optional<std::uint64_t> read_id_{};
    // Send time of each write without a reply, by request id
    std::map<std::uint64_t, Steady::time_point> writes_{};
    Steady::time_point posted_at_{};
    std::deque<Outgoing> output_{};
    std::uint64_t received_ = 0;  // number of output bytes that arrived
    std::uint64_t sent_ = 0;      // number of input bytes that were sent
    std::uint64_t taken_ = 0;     // number of sent bytes that the program has taken
    bool input_ended_ = false;
    std::optional<int> status_{};  // exit status; set once the program has ended
    std::string trouble_{};        // why the program ended without an exit status
};

}  // namespace

io::Descriptor queue_session_signals() {
    return io::queue_signals({SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT});
}

Result<int> run_session(Daemon& daemon, std::uint64_t terminal, const io::Descriptor& signals,
                        bool raw) {
    return Session(daemon, terminal, signals, raw).run();
}

}  // namespace roll::cli
