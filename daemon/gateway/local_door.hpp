// The clients of this machine, over a Unix socket of their own: such a client needs no libzmq, no
// keys and no handshake, so `rollctl submit` takes 2 ms where it took 11.
//
// The kernel says whose process connects (SO_PEERCRED): one that is not of rolld's user or root is
// turned away. Frames, their limits and what they hold are those of the other socket.
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
    std::uint64_t connection = 0;  // never 0
    std::string bytes;
};

class LocalDoor {
  public:
    // `heard` is called, on the context, once frames have come. Where `connections_max` are
    // connected, further ones are turned away.
    LocalDoor(boost::asio::io_context& io, std::size_t connections_max,
              std::function<void()> heard);

    // Refused: the socket cannot be made. Replaces the file that an earlier rolld left.
    Result<void> bind(const std::string& path);

    // The next frame in the order in which they came.
    std::optional<LocalFrame> receive();
    // Calls `heard` again, if frames are left.
    void ring();

    // Dropped if the connection is gone, or owes too much already.
    void send(std::uint64_t connection, const std::string& frame);
    void stop();

  private:
    using Protocol = boost::asio::local::stream_protocol;
    struct Connection {
        explicit Connection(Protocol::socket made) : socket(std::move(made)) {}
        Protocol::socket socket;
        std::string owed;  // what the socket did not take yet
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
