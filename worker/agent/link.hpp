// The connection to rolld: sends heartbeats and receives answers. Never blocks. While no answer
// arrives, the link reads the state directory again, because rolld may have a new endpoint or key.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "common/io/state_directory.hpp"
#include "common/io/zmq_socket.hpp"
#include "common/protocol/pieces.hpp"
#include "common/protocol/terminal.hpp"
#include "common/protocol/worker.hpp"
#include "worker/agent/core/lease.hpp"

namespace roll::agent {

class Link {
  public:
    Link(const io::ZmqContext& context, io::StateDirectory directory)
        : context_(context),
          directory_(std::move(directory)) {}

    // Connects or reconnects if necessary. If there is then no connection, fails with the reason.
    Result<void> maintain(Instant now);

    // Sends a heartbeat. Does nothing without a connection, because the next heartbeat repeats the
    // state.
    void send(const protocol::Heartbeat& heartbeat);

    void send(const protocol::TerminalNews& news);
    void send(const protocol::PieceRequest& request);

    // Returns the next answer; nullopt if there is none. Skips messages that are not answers.
    std::optional<protocol::Answer> receive(Instant now);

    // Returns the orders about terminals that receive() has read.
    std::vector<protocol::TerminalOrder> take_terminal_orders() {
        return std::exchange(terminal_orders_, {});
    }

    // Returns the pieces of jobs' files that receive() has read.
    std::vector<protocol::Piece> take_pieces() { return std::exchange(pieces_, {}); }

    // Returns the descriptor to wait for; -1 without a connection. The descriptor is
    // edge-triggered: before waiting, call receive() until it returns nullopt.
    int descriptor() const { return socket_ ? socket_->descriptor() : -1; }

  private:
    const io::ZmqContext& context_;
    io::StateDirectory directory_;
    std::unique_ptr<io::ZmqSocket> socket_{};
    std::string endpoint_{};
    std::string server_key_{};
    std::vector<protocol::TerminalOrder> terminal_orders_{};
    std::vector<protocol::Piece> pieces_{};
    Instant checked_{-Millis{1 << 20}};
    Instant answered_{-Millis{1 << 20}};
};

}  // namespace roll::agent
