// Carries a client's requests to rolld and the replies back. The connection is ZeroMQ with CURVE
// from any host, or a Unix socket on the same machine.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/error.hpp"
#include "common/io/zmq_socket.hpp"

namespace roll::io {

class Channel {
  public:
    virtual ~Channel() = default;
    // Sends a frame. Returns false if the frame cannot be sent now.
    virtual bool send(const std::string& frame) = 0;
    // Returns the next frame; nullopt if no frame arrives in time or the connection is closed.
    virtual std::optional<std::string> receive(std::chrono::milliseconds timeout) = 0;
    // Returns a descriptor that becomes readable when a frame arrives; -1 if the connection is
    // closed. The descriptor may be edge-triggered, so wait for it only after receive() has
    // returned nullopt.
    virtual int descriptor() const = 0;
    // Returns the reason why no reply will arrive; nullopt if the channel knows no such reason.
    virtual std::optional<Error> trouble() const = 0;
};

// Returns a channel over ZeroMQ. Fails with Unavailable if no process listens on the endpoint. If
// the endpoint's machine refuses TCP connections, first waits a second, because rolld may be
// restarting.
Result<std::unique_ptr<Channel>> zmq_channel(const std::string& endpoint, const CurveKeys& keys,
                                             const std::string& server_public_key);

// Returns a channel over the Unix socket at `path`; null if no rolld of this user listens on the
// socket.
std::unique_ptr<Channel> local_channel(const std::string& path);

}  // namespace roll::io
