// The connection to rolld: sends heartbeats, receives answers. Never blocks. Follows rolld to a
// new endpoint or key by reading the state directory again while no answer arrives.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/error.hpp"
#include "common/io/state_directory.hpp"
#include "common/io/zmq_socket.hpp"
#include "common/protocol/worker.hpp"
#include "worker/agent/lease.hpp"

namespace roll::agent {

class Link {
  public:
    Link(const io::ZmqContext& context, io::StateDirectory directory)
        : context_(context),
          directory_(std::move(directory)) {}

    // Connects or reconnects if due. The error says why there is no connection.
    Result<void> maintain(Instant now);

    // Sends nothing without a connection; the next heartbeat repeats the state.
    void send(const protocol::Heartbeat& heartbeat);

    // Returns the next answer, or nullopt. Frames that are not answers are skipped.
    std::optional<protocol::Answer> receive(Instant now);

    // Edge-triggered: before waiting, call receive() until it returns nullopt. -1 without a
    // connection.
    int descriptor() const { return socket_ ? socket_->descriptor() : -1; }

  private:
    const io::ZmqContext& context_;
    io::StateDirectory directory_;
    std::unique_ptr<io::ZmqSocket> socket_{};
    std::string endpoint_{};
    std::string server_key_{};
    Instant checked_{-Millis{1 << 20}};
    Instant answered_{-Millis{1 << 20}};
};

}  // namespace roll::agent
