// The terminals that clients have opened in running jobs (`rollctl shell`). Passes input from a
// client to a worker and output back. The functions are pure: the time is an argument, and the
// caller sends the orders and replies.
//
// rolld keeps at most protocol::kTerminalWindow bytes of output per terminal: when this buffer is
// full, the worker sends more output only after the client has read some. Terminals are stored
// neither in State nor in the ledger, so a restart of rolld ends all terminals.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/protocol/shell_operations.hpp"
#include "common/protocol/terminal.hpp"
#include "daemon/core/state/state.hpp"
#include "daemon/gateway/sessions.hpp"

namespace roll::gateway {

class Terminals {
  public:
    struct Opening {
        std::string user{};
        AttemptKey attempt{};
        WorkerId worker{};
        protocol::TerminalStart start{};
        int rows = 0, columns = 0;
    };
    struct Outgoing {
        WorkerId worker{};
        protocol::TerminalOrder order{};
    };
    struct Reply {
        Peer peer{};
        std::uint64_t id = 0;
        Json value{};
    };

    // The first terminal gets the number `first` + 1. No earlier rolld may have used this or a
    // higher number.
    explicit Terminals(std::uint64_t first) : last_id_(first) {}

    // Returns the number of the new terminal. Fails with Refused at the maximum number of
    // terminals.
    Result<std::uint64_t> open(const Opening& opening, Instant now);

    // Passes input on. Returns the number of bytes of input that the program has taken. Fails with
    // NotFound if the user has no terminal with this number. Fails with InvalidArgument if the
    // input is malformed. Fails with Refused if the client sends more input than the window allows.
    Result<std::uint64_t> write(const std::string& user, const protocol::ShellWriteArgs& args,
                                Instant now);

    // Records that the client waits for output. take_replies() returns the reply later.
    Result<void> read(const std::string& user, const protocol::ShellReadArgs& args,
                      const Peer& peer, std::uint64_t id, Instant now);

    void hear(protocol::TerminalNews news);

    // Returns the worker that runs the terminal's program. If there is no such terminal, returns an
    // id that no worker has.
    WorkerId worker_of(std::uint64_t terminal) const;

    // Ends the terminals whose attempt is over, and forgets terminals without a client.
    void tidy(const core::State& state, Instant now);

    std::vector<Outgoing> take_orders() { return std::exchange(orders_, {}); }
    std::vector<Reply> take_replies(Instant now);

    // Returns the next time at which tidy() or take_replies() must be called; nullopt if no
    // terminal is open.
    std::optional<Instant> due() const;

  private:
    struct Chunk {
        std::string bytes{};
        bool errors = false;
    };
    struct Waiting {
        Peer peer{};
        std::uint64_t id = 0;
        Instant until{};
    };
    struct Terminal {
        std::string user{};
        AttemptKey attempt{};
        WorkerId worker{};
        std::deque<Chunk> chunks{};
        std::uint64_t begin = 0;     // position of the first chunk in the output
        std::uint64_t received = 0;  // bytes of output from the worker
        std::uint64_t written = 0;   // bytes of input from the client
        std::uint64_t taken = 0;     // bytes of input that the program has taken
        std::uint64_t told = 0;      // value of `taken` in the last reply to the client
        std::optional<int> exit{};
        std::string trouble{};
        std::vector<Waiting> waiting{};
        Instant polled_at{};
        // time at which the terminal is closed; set once its attempt has ended
        std::optional<Instant> lost_at{};

        bool ended() const { return exit || !trouble.empty(); }
        // Returns whether to answer a waiting read now. Without output, a read is also answered
        // once the program has taken enough input, because the client may wait to send more.
        bool is_ready() const {
            return !chunks.empty() || ended() || taken >= told + protocol::kTerminalWindow / 4;
        }
    };
    Result<Terminal*> find(const std::string& user, std::uint64_t id);
    static Json reply_of(const Terminal& terminal);
    void grant(std::uint64_t id, const Terminal& terminal, protocol::TerminalOrder order);

    std::uint64_t last_id_;
    std::map<std::uint64_t, Terminal> terminals_{};
    std::vector<Outgoing> orders_{};
};

}  // namespace roll::gateway
