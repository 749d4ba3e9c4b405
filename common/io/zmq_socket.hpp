// A ZeroMQ socket. It never blocks on send or receive, never throws, and is not thread-safe.
//
// The largest frame that a peer may send is protocol::kFrameReadMax if this socket is a router,
// else protocol::kFrameBytesMax. libzmq closes the connection of a peer that sends a larger frame.
// Messages that are not sent within a second after the socket is closed are dropped.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/io/curve_keys.hpp"

namespace roll::io {

// Owns libzmq's I/O thread. Must outlive its sockets.
class ZmqContext {
  public:
    ZmqContext();
    ~ZmqContext();
    ZmqContext(const ZmqContext&) = delete;
    ZmqContext& operator=(const ZmqContext&) = delete;
    void* get() const { return context_; }

  private:
    void* context_;
};

enum class ZmqType { Dealer, Router, Reply };

struct ZmqMessage {
    std::vector<std::string> frames;  // the first frame at a router is the sender's routing id
    std::string user_id;              // name that the authenticator gave the sender; may be empty
    std::string address;  // sender's address if a frame exceeds kFrameBytesMax; may be empty
};

class ZmqSocket {
  public:
    ZmqSocket(const ZmqContext& context, ZmqType type);
    ~ZmqSocket();
    ZmqSocket(ZmqSocket&& other) noexcept;
    ZmqSocket& operator=(ZmqSocket&&) = delete;
    ZmqSocket(const ZmqSocket&) = delete;
    ZmqSocket& operator=(const ZmqSocket&) = delete;

    // Makes the socket a CURVE server. libzmq asks the authenticator (ZAP) of `domain` whether each
    // peer may connect. Call this function before bind() or connect().
    void set_curve_server(const CurveKeys& keys, const std::string& domain);
    void set_curve_client(const CurveKeys& keys, const std::string& server_public_key);

    // Accepts peers at the endpoint. Fails with InvalidArgument if the transport is unknown. Fails
    // with Refused if the address is in use, does not exist yet, or may not be bound.
    Result<void> bind(const std::string& endpoint);
    void unbind(const std::string& endpoint);  // stops accepting new peers; connected peers stay
    Result<void> connect(const std::string& endpoint);
    std::string bound_endpoint() const;  // returns the endpoint with the port that bind() chose

    std::optional<ZmqMessage> receive();
    // Queues a message. Returns false if the peer is unknown or the queue is full.
    bool send(const std::vector<std::string>& frames);

    bool input_ready() const;  // returns whether input is ready; this also re-arms the descriptor
    bool wait_input(std::chrono::milliseconds timeout) const;
    int descriptor() const;  // returns libzmq's descriptor, which is edge-triggered (see ZmqReader)
    void* get() const { return socket_; }

  private:
    void set(int option, int value);
    void set(int option, const std::string& value);
    void* socket_;
};

}  // namespace roll::io
