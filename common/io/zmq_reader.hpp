// Waits on an io_context for the input of a ZmqSocket, which it owns.
//
// libzmq's descriptor is edge-triggered: any call on the socket may swallow the edge. Usage, one
// coroutine a socket; who receives or sends elsewhere looks again afterwards:
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

    // True once there is input (others on the context get their turn first); false after stop().
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
