// How a client's frames get to a rolld and its replies back: over ZeroMQ with CURVE, from any host,
// or over a Unix socket of this machine.
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
    // False: it cannot be sent now.
    virtual bool send(const std::string& frame) = 0;
    // Nothing: the time is up, or nothing can come any more.
    virtual std::optional<std::string> receive(std::chrono::milliseconds timeout) = 0;
    // Why nothing comes; nothing: not known.
    virtual std::optional<Error> trouble() const = 0;
};

// Error Unavailable: nobody listens there.
Result<std::unique_ptr<Channel>> zmq_channel(const std::string& endpoint, const CurveKeys& keys,
                                             const std::string& server_public_key);

// Null: no rolld of this user listens there.
std::unique_ptr<Channel> local_channel(const std::string& path);

}  // namespace roll::io
