// How many peers are connected to a socket: libzmq tells of each that comes and goes.
#pragma once

#include <cstddef>
#include <set>

#include "common/io/zmq_socket.hpp"

namespace roll::gateway {

class Connections {
  public:
    // Before `server` is bound. The context must outlive it.
    Connections(const io::ZmqContext& context, const io::ZmqSocket& server);
    ~Connections();
    Connections(const Connections&) = delete;
    Connections& operator=(const Connections&) = delete;

    // Now, those whose handshake is under way included. Never blocks.
    std::size_t open();

  private:
    void* events_;
    std::set<int> open_{};  // descriptors
};

}  // namespace roll::gateway
