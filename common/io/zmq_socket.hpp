// A ZeroMQ socket. It never blocks on send or receive, never throws, and is not thread-safe.
//
// A peer may send frames of at most protocol::kFrameBytesMax; libzmq closes the connection of a
// peer that sends more. Closing the socket drops messages that are not sent within a second.
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
    std::vector<std::string> frames;  // a router's first frame is the sender's routing id
    std::string user_id;              // the authenticator's name for the sender; may be empty
};

class ZmqSocket {
  public:
    ZmqSocket(const ZmqContext& context, ZmqType type);
    ~ZmqSocket();
    ZmqSocket(ZmqSocket&& other) noexcept;
    ZmqSocket& operator=(ZmqSocket&&) = delete;
    ZmqSocket(const ZmqSocket&) = delete;
    ZmqSocket& operator=(const ZmqSocket&) = delete;

    // Makes the socket a CURVE server, which asks the authenticator (ZAP) about each peer under
    // this domain. Call it before bind or connect.
    void set_curve_server(const CurveKeys& keys, const std::string& domain);
    void set_curve_client(const CurveKeys& keys, const std::string& server_public_key);

    // Accepts peers at the endpoint. Fails with InvalidArgument if the transport is unknown,
    // Refused if the address is in use or may not be bound.
    Result<void> bind(const std::string& endpoint);
    void unbind(const std::string& endpoint);  // stops accepting new peers; connected peers stay
    Result<void> connect(const std::string& endpoint);
    std::string bound_endpoint() const;  // has the actual port after a bind to "tcp://127.0.0.1:*"

    std::optional<ZmqMessage> receive();
    // Queues a message. Returns false if that is impossible: unknown peer, or the queue is full.
    bool send(const std::vector<std::string>& frames);

    bool input_ready() const;  // reads ZMQ_EVENTS, which also re-arms the descriptor
    bool wait_input(std::chrono::milliseconds timeout) const;
    int descriptor() const;  // edge-triggered; see ZmqReader
    void* get() const { return socket_; }

  private:
    void set(int option, int value);
    void set(int option, const std::string& value);
    void* socket_;
};

}  // namespace roll::io
