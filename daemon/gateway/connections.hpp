// Counts the peers connected to a socket, from libzmq's monitor events.
#pragma once

#include <cstddef>
#include <set>

#include "common/io/zmq_socket.hpp"

namespace roll::gateway {

class Connections {
  public:
    // `context` must outlive this object, and `server` must not be bound yet.
    Connections(const io::ZmqContext& context, const io::ZmqSocket& server);
    ~Connections();
    Connections(const Connections&) = delete;
    Connections& operator=(const Connections&) = delete;

    // Returns the number of open connections, including unfinished handshakes. Never blocks.
    std::size_t open();

  private:
    void* events_;
    std::set<int> open_{};  // descriptors of the open connections
};

}  // namespace roll::gateway
