// Serves local clients over a Unix socket. A local client needs no libzmq, keys or handshake.
// `rollctl submit` therefore takes 2 ms instead of 11 ms.
//
// The kernel reports the peer's uid (SO_PEERCRED); only rolld's user and root are admitted. Frames
// have the same format and limits as on the ZeroMQ socket.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/local/stream_protocol.hpp>

#include "common/error.hpp"
#include "common/io/task.hpp"

namespace roll::gateway {

struct LocalFrame {
    std::uint64_t connection = 0;  // number of the connection, never 0
    std::string bytes;
};

class LocalDoor {
  public:
    // `heard` is called on the context's thread after frames have arrived. New connections are
    // refused if `connections_max` are open.
    LocalDoor(boost::asio::io_context& io, std::size_t connections_max,
              std::function<void()> heard);

    // Binds the socket. Replaces a socket file that an earlier rolld left. Fails with Refused if
    // the socket cannot be created.
    Result<void> bind(const std::string& path);

    // Returns the frame that arrived first; nullopt if there is none.
    std::optional<LocalFrame> receive();
    // Schedules another call of `heard` if frames are left.
    void ring();

    // Sends a frame. Drops it if the connection is closed or has too much unsent data.
    void send(std::uint64_t connection, const std::string& frame);
    void stop();

  private:
    using Protocol = boost::asio::local::stream_protocol;
    struct Connection {
        explicit Connection(Protocol::socket made) : socket(std::move(made)) {}
        Protocol::socket socket;
        std::string owed;  // data that the socket has not accepted yet
        bool writing = false;
    };
    io::Task<void> accept();
    io::Task<void> serve(std::uint64_t id, std::shared_ptr<Connection> connection);
    static io::Task<void> write(std::shared_ptr<Connection> connection);

    boost::asio::io_context& io_;
    std::size_t connections_max_;
    std::function<void()> heard_;
    Protocol::acceptor acceptor_;
    std::map<std::uint64_t, std::shared_ptr<Connection>> connections_{};
    std::deque<LocalFrame> frames_{};
    std::uint64_t last_id_ = 0;
    bool rung_ = false;
};

}  // namespace roll::gateway
