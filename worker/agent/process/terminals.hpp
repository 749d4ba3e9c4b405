// The terminals that clients have opened in this worker's attempts (`rollctl shell`). Moves data
// between rolld's messages and the programs that the guards run. Never blocks.
//
// The output of a terminal is read only up to the limit that rolld has set for it
// (TerminalOrder::limit). All terminals together send at most kFramesPerSecond messages per second.
// These two limits protect rolld from too much output. A terminal ends if its client shows no sign
// of life for protocol::kTerminalPatience.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

#include "common/protocol/terminal.hpp"
#include "worker/agent/process/supervisor.hpp"

namespace roll::agent {

class Terminals {
  public:
    void take(protocol::TerminalOrder order, Supervisor& supervisor, Instant now);

    // Moves data and ends terminals without a client. Returns the messages to send to rolld.
    std::vector<protocol::TerminalNews> collect(Supervisor& supervisor, Instant now);

    void on_ended(const ShellEnded& ended);
    void on_gone(const AttemptKey& attempt);

    void add_polled(std::vector<pollfd>& polled, Instant now) const;
    // Returns the longest time until the next collect() if no descriptor is ready.
    Millis pause(Instant now) const;

  private:
    struct Terminal {
        AttemptKey attempt{};
        io::Descriptor input{};
        io::Descriptor output{};
        io::Descriptor errors{};
        std::string unwritten{};  // input that the program has not taken yet
        bool end_of_input = false;
        std::uint64_t received = 0;  // bytes of input received from rolld
        std::uint64_t reported = 0;  // bytes of input reported to rolld as taken
        std::uint64_t sent = 0;      // bytes of output sent to rolld
        std::uint64_t limit = 0;
        Instant heard{};
        std::optional<int> exit{};
        std::string trouble{};
        std::optional<Instant> ended_at{};  // time when collect() first saw that ended() is true

        bool ended() const { return exit || !trouble.empty(); }
    };
    void start(const protocol::TerminalOrder& order, Supervisor& supervisor, Instant now);
    void write_input(Terminal& terminal);
    bool read_output(std::uint64_t id, Terminal& terminal, io::Descriptor& from, Instant now);
    void tell_taken(std::uint64_t id, Terminal& terminal);
    protocol::TerminalNews& add_news(std::uint64_t id, Terminal& terminal);
    bool may_send(Instant now) const;

    std::map<std::uint64_t, Terminal> terminals_{};
    std::vector<protocol::TerminalNews> news_{};
    // earliest time at which the next message may be sent without exceeding kFramesPerSecond
    Instant next_frame_{};
};

}  // namespace roll::agent
