#include "daemon/gateway/connections.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include <zmq.h>

#include "common/check.hpp"

namespace roll::gateway {
namespace {

constexpr const char* kEndpoint = "inproc://connections";

}  // namespace

// Subscribes to the events of `server`. The socket has no receive limit, because at a limit
// libzmq's own thread would block.
Connections::Connections(const io::ZmqContext& context, const io::ZmqSocket& server)
    : events_(zmq_socket(context.get(), ZMQ_PAIR)) {
    const int none = 0;
    ROLL_CHECK(events_ != nullptr);
    ROLL_CHECK(zmq_setsockopt(events_, ZMQ_RCVHWM, &none, sizeof none) == 0);
    ROLL_CHECK(zmq_setsockopt(events_, ZMQ_LINGER, &none, sizeof none) == 0);
    ROLL_CHECK(zmq_socket_monitor(server.get(), kEndpoint,
                                  ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) == 0);
    ROLL_CHECK(zmq_connect(events_, kEndpoint) == 0);
}

Connections::~Connections() { zmq_close(events_); }

// Reads the new events, and returns the number of open connections. An event has two frames: a
// 16-bit kind followed by a 32-bit descriptor, then the endpoint.
std::size_t Connections::open() {
    std::array<char, 512> frame{};
    while (zmq_recv(events_, frame.data(), frame.size(), ZMQ_DONTWAIT) >= 6) {
        std::uint16_t kind = 0;
        std::int32_t descriptor = 0;
        std::memcpy(&kind, frame.data(), sizeof kind);
        std::memcpy(&descriptor, frame.data() + sizeof kind, sizeof descriptor);
        zmq_recv(events_, frame.data(), frame.size(), ZMQ_DONTWAIT);
        if (kind == ZMQ_EVENT_ACCEPTED) open_.insert(descriptor);
        if (kind == ZMQ_EVENT_DISCONNECTED) open_.erase(descriptor);
    }
    return open_.size();
}

}  // namespace roll::gateway
