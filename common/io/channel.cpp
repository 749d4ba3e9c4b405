#include "common/io/channel.hpp"

#include <cerrno>
#include <string_view>
#include <thread>
#include <utility>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/io/descriptor.hpp"
#include "common/io/local_stream.hpp"

namespace roll::io {
namespace {

constexpr auto kRestart = std::chrono::seconds(1);  // time that a rolld needs to restart

Error no_daemon(const std::string& endpoint) {
    return {ErrorCode::Unavailable, "no rolld listens on " + endpoint, "rollctl up"};
}

// Returns true if the machine refuses a TCP connection to the address. Returns false if the
// connection succeeds, if nothing answers in time, or if the address cannot be resolved.
bool is_refused(const addrinfo& address) {
    constexpr int kPatienceMs = 1000;
    const Descriptor socket(
        ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return false;
    if (errno != EINPROGRESS) return errno == ECONNREFUSED;
    pollfd ready{socket.get(), POLLOUT, 0};
    if (::poll(&ready, 1, kPatienceMs) != 1) return false;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error == ECONNREFUSED;
}

// Returns true if all addresses of "HOST:PORT" refuse TCP connections.
bool is_refused(const std::string& host_and_port) {
    const std::size_t colon = host_and_port.rfind(':');
    if (colon == std::string::npos) return false;
    std::string host = host_and_port.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), host_and_port.c_str() + colon + 1, &wanted, &found) != 0)
        return false;
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, ::freeaddrinfo);
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
        if (!is_refused(*one)) return false;
    return true;
}

// Returns true if no process listens on the endpoint. This function tries to connect, because
// libzmq reports no error and retries for ever.
bool nobody_listens(const std::string& endpoint) {
    constexpr std::string_view kIpc = "ipc://";
    constexpr std::string_view kTcp = "tcp://";
    if (endpoint.starts_with(kTcp)) return is_refused(endpoint.substr(kTcp.size()));
    if (!endpoint.starts_with(kIpc)) return false;
    return !connect_unix(endpoint.substr(kIpc.size())) &&
           (errno == ENOENT || errno == ECONNREFUSED);
}

// A channel over ZeroMQ. libzmq reconnects by itself after rolld restarts.
class ZmqChannel final : public Channel {
  public:
    ZmqChannel(std::unique_ptr<ZmqContext> context, ZmqSocket socket, std::string endpoint)
        : context_(std::move(context)),
          socket_(std::move(socket)),
          endpoint_(std::move(endpoint)) {}

    bool send(const std::string& frame) override { return socket_.send({frame}); }

    std::optional<std::string> receive(std::chrono::milliseconds timeout) override {
        if (!socket_.wait_input(timeout)) return std::nullopt;
        auto message = socket_.receive();
        // An empty frame answers no request, so the caller skips it.
        if (!message || message->frames.empty()) return std::string();
        return std::move(message->frames.back());
    }

    int descriptor() const override { return socket_.descriptor(); }

    std::optional<Error> trouble() const override {
        return nobody_listens(endpoint_) ? std::optional(no_daemon(endpoint_)) : std::nullopt;
    }

  private:
    std::unique_ptr<ZmqContext> context_;
    ZmqSocket socket_;
    std::string endpoint_;
};

class LocalChannel final : public Channel {
  public:
    LocalChannel(LocalStream stream, std::string path)
        : stream_(std::move(stream)),
          path_(std::move(path)) {}

    // Sends a frame. If rolld has restarted, reconnects and sends the whole frame on the new
    // connection.
    bool send(const std::string& frame) override {
        if (!stream_.closed() && stream_.send(frame)) return true;
        auto again = LocalStream::connect(path_);
        if (!again) return false;
        stream_ = *std::move(again);
        return stream_.send(frame);
    }

    std::optional<std::string> receive(std::chrono::milliseconds timeout) override {
        return stream_.receive(timeout);
    }

    int descriptor() const override { return stream_.descriptor(); }

    std::optional<Error> trouble() const override {
        if (!stream_.closed()) return std::nullopt;
        if (!connect_unix(path_)) return no_daemon(path_);
        return Error{ErrorCode::Unavailable,
                     "rolld closed the connection without an answer: rolld restarted, or the "
                     "number of connected clients has reached its --max-connections",
                     "try again; a job submitted again with the same --key is queued only once"};
    }

  private:
    LocalStream stream_;
    std::string path_;
};

}  // namespace

Result<std::unique_ptr<Channel>> zmq_channel(const std::string& endpoint, const CurveKeys& keys,
                                             const std::string& server_public_key) {
    if (nobody_listens(endpoint)) {
        // On another machine, a client cannot see that rolld is about to start again, so wait.
        if (endpoint.starts_with("tcp://")) std::this_thread::sleep_for(kRestart);
        if (nobody_listens(endpoint)) return tl::unexpected(no_daemon(endpoint));
    }
    auto context = std::make_unique<ZmqContext>();
    ZmqSocket socket(*context, ZmqType::Dealer);
    socket.set_curve_client(keys, server_public_key);
    ROLL_TRY_VOID(socket.connect(endpoint));
    return std::make_unique<ZmqChannel>(std::move(context), std::move(socket), endpoint);
}

std::unique_ptr<Channel> local_channel(const std::string& path) {
    auto stream = LocalStream::connect(path);
    if (!stream) return nullptr;
    return std::make_unique<LocalChannel>(*std::move(stream), path);
}

}  // namespace roll::io
