// Owns a ZmqSocket and waits for its input on an io_context.
//
// libzmq's descriptor is edge-triggered, and any call on the socket may consume the edge. Let only
// one coroutine wait for a socket. If other code sends or receives on the socket, call look_again()
// afterwards:
//
//   while (co_await reader.readable())
//       while (auto message = reader.receive()) handle(*message);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "common/io/task.hpp"
#include "common/io/zmq_socket.hpp"

namespace roll::io {

class ZmqReader {
  public:
    ZmqReader(boost::asio::io_context& context, ZmqSocket socket);
    ~ZmqReader();
    ZmqReader(const ZmqReader&) = delete;
    ZmqReader& operator=(const ZmqReader&) = delete;

    // Waits for input. Returns true once a message can be received, false after stop(). Lets other
    // handlers of the context run first.
    Task<bool> readable();
    void stop();

    std::optional<ZmqMessage> receive() { return socket_.receive(); }
    bool send(const std::vector<std::string>& frames) { return socket_.send(frames); }
    void look_again();
    Result<void> bind(const std::string& endpoint) { return socket_.bind(endpoint); }
    void unbind(const std::string& endpoint) { socket_.unbind(endpoint); }
    std::string bound_endpoint() const { return socket_.bound_endpoint(); }

  private:
    ZmqSocket socket_;
    boost::asio::posix::stream_descriptor descriptor_;
    bool stopped_ = false;
};

}  // namespace roll::io
