#include "daemon/gateway/local_door.hpp"

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/io/local_stream.hpp"
#include "common/protocol/client.hpp"

namespace roll::gateway {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kChunkBytes = 16 << 10;
constexpr std::size_t kOwedBytesMax = 16 * protocol::kFrameBytesMax;
constexpr auto kPauseAfterTrouble = std::chrono::milliseconds(100);

bool is_welcome(int socket) {
    const auto uid = io::peer_uid(socket);
    if (uid && (*uid == ::geteuid() || *uid == 0)) return true;
    spdlog::warn(
        "refused a process of user {}: on this socket only rolld's own user and root may connect",
        uid ? std::to_string(*uid) : "unknown");
    return false;
}

}  // namespace

LocalDoor::LocalDoor(asio::io_context& io, std::size_t connections_max, std::function<void()> heard)
    : io_(io),
      connections_max_(connections_max),
      heard_(std::move(heard)),
      acceptor_(io) {}

Result<void> LocalDoor::bind(const std::string& path) {
    ::unlink(path.c_str());
    boost::system::error_code error;
    acceptor_.open(Protocol(), error);
    if (!error) acceptor_.bind(Protocol::endpoint(path), error);
    if (!error && ::chmod(path.c_str(), 0600) != 0) error.assign(errno, error.category());
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) return fail(ErrorCode::Refused, "cannot listen on " + path + ": " + error.message());
    io::spawn(io_, accept());
    return {};
}

void LocalDoor::stop() {
    boost::system::error_code error;
    acceptor_.close(error);
}

io::Task<void> LocalDoor::accept() {
    const auto token = asio::as_tuple(asio::use_awaitable);
    while (acceptor_.is_open()) {
        auto [error, socket] = co_await acceptor_.async_accept(token);
        if (error == asio::error::operation_aborted) co_return;
        if (error) {  // accept() fails, for example, if no descriptor is left
            asio::steady_timer pause(io_, kPauseAfterTrouble);
            co_await pause.async_wait(token);
            continue;
        }
        if (!is_welcome(socket.native_handle())) continue;
        if (connections_.size() >= connections_max_) {
            spdlog::warn("refused a client: {} clients are already connected", connections_max_);
            continue;
        }
        socket.non_blocking(true, error);
        const auto connection = std::make_shared<Connection>(std::move(socket));
        connections_.emplace(++last_id_, connection);
        io::spawn(io_, serve(last_id_, connection));
    }
}

io::Task<void> LocalDoor::serve(std::uint64_t id, std::shared_ptr<Connection> connection) {
    const auto token = asio::as_tuple(asio::use_awaitable);
    std::array<char, kChunkBytes> chunk;
    io::FrameReader reader;
    for (bool open = true; open;) {
        const auto buffer = asio::buffer(chunk);
        const auto [error, size] = co_await connection->socket.async_read_some(buffer, token);
        if (error) break;
        reader.add(chunk.data(), size);
        for (;;) {
            auto frame = reader.next();
            open = frame.has_value();
            if (!open) send(id, protocol::encode_reply(0, frame.error()));
            if (!open || !*frame) break;
            frames_.push_back({id, std::move(**frame)});
        }
        ring();
    }
    boost::system::error_code error;
    connection->socket.close(error);
    connections_.erase(id);
}

// Schedules a call of `heard`. The call comes after all handlers that are ready now. The frames of
// all senders are therefore received first, and one turn processes them together.
void LocalDoor::ring() {
    if (frames_.empty() || std::exchange(rung_, true)) return;
    asio::post(io_, [this] {
        rung_ = false;
        heard_();
    });
}

std::optional<LocalFrame> LocalDoor::receive() {
    if (frames_.empty()) return std::nullopt;
    LocalFrame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
}

void LocalDoor::send(std::uint64_t connection, const std::string& frame) {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) return;
    Connection& to = *found->second;
    if (to.owed.size() > kOwedBytesMax) return;
    to.owed += io::with_length(frame);
    if (to.writing) return;
    const auto sent = ::send(to.socket.native_handle(), to.owed.data(), to.owed.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) to.owed.erase(0, static_cast<std::size_t>(sent));
    if (to.owed.empty()) return;
    to.writing = true;
    io::spawn(io_, write(found->second));
}

io::Task<void> LocalDoor::write(std::shared_ptr<Connection> connection) {
    const auto token = asio::as_tuple(asio::use_awaitable);
    while (!connection->owed.empty()) {
        const std::string now = std::exchange(connection->owed, {});
        const auto buffer = asio::buffer(now);
        const auto [error, size] = co_await asio::async_write(connection->socket, buffer, token);
        if (error) break;  // serve() gets this error, too, and closes the connection
    }
    connection->writing = false;
}

}  // namespace roll::gateway
