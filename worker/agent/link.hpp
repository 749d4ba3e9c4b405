// The connection to rolld: heartbeats out, answers in. Never blocks. Follows rolld to a new
// endpoint or key: the state directory says where it is, and is read again while no answer comes.
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

    // Connects, or connects anew, if that is due. The error says why there is no connection.
    Result<void> maintain(Instant now);

    // Dropped without a connection: the next one says the same.
    void send(const protocol::Heartbeat& heartbeat);

    // The next answer. Frames that are none are left out.
    std::optional<protocol::Answer> receive(Instant now);

    // Edge-triggered: call receive() until it gives nothing before waiting. -1 without a
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
