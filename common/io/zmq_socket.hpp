// One ZeroMQ socket: never blocks on send or receive, never throws. Not thread-safe.
//
// What a peer sends is limited to protocol::kFrameBytesMax a frame; libzmq closes the connection of
// one that sends more. Closing drops what could not be sent within a second.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/io/curve_keys.hpp"

namespace roll::io {

// libzmq's own thread. Outlives its sockets.
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
    std::vector<std::string> frames;  // a router's first is the sender's routing id
    std::string user_id;              // what the authenticator said of the sender; empty: nothing
};

class ZmqSocket {
  public:
    ZmqSocket(const ZmqContext& context, ZmqType type);
    ~ZmqSocket();
    ZmqSocket(ZmqSocket&& other) noexcept;
    ZmqSocket& operator=(ZmqSocket&&) = delete;
    ZmqSocket(const ZmqSocket&) = delete;
    ZmqSocket& operator=(const ZmqSocket&) = delete;

    // Before bind or connect. As a server every peer is asked about (ZAP) with this domain.
    void set_curve_server(const CurveKeys& keys, const std::string& domain);
    void set_curve_client(const CurveKeys& keys, const std::string& server_public_key);

    // Error InvalidArgument: no such transport; Refused: the address is taken or may not be bound.
    Result<void> bind(const std::string& endpoint);
    void unbind(const std::string& endpoint);  // nobody new comes; who is connected stays
    Result<void> connect(const std::string& endpoint);
    std::string bound_endpoint() const;  // with the port that "tcp://127.0.0.1:*" got

    std::optional<ZmqMessage> receive();
    // False if it cannot be queued: no such peer, or too much is queued already.
    bool send(const std::vector<std::string>& frames);

    bool input_ready() const;  // by ZMQ_EVENTS, which also re-arms the descriptor
    bool wait_input(std::chrono::milliseconds timeout) const;
    int descriptor() const;  // edge-triggered; see ZmqReader
    void* get() const { return socket_; }

  private:
    void set(int option, int value);
    void set(int option, const std::string& value);
    void* socket_;
};

}  // namespace roll::io
