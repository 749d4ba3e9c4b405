#include "common/io/client.hpp"

#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/protocol/client.hpp"

namespace roll::io {
namespace {

constexpr std::string_view kIpc = "ipc://";

// libzmq would try for ever to reach a socket that nobody listens on; the kernel knows at once.
bool nobody_listens(const std::string& endpoint) {
    if (!endpoint.starts_with(kIpc)) return false;
    const std::string path = endpoint.substr(kIpc.size());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) return false;
    std::memcpy(address.sun_path, path.data(), path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    const int done = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const bool refused = done != 0 && (errno == ENOENT || errno == ECONNREFUSED);
    ::close(fd);
    return refused;
}

tl::unexpected<Error> no_daemon(const std::string& endpoint) {
    return fail(ErrorCode::Unavailable, "no rolld listens on " + endpoint, "rollctl up");
}

}  // namespace

Result<Client> Client::connect(const std::string& endpoint, const CurveKeys& keys,
                               const std::string& server_public_key) {
    if (nobody_listens(endpoint)) return no_daemon(endpoint);
    auto context = std::make_unique<ZmqContext>();
    ZmqSocket socket(*context, ZmqType::Dealer);
    socket.set_curve_client(keys, server_public_key);
    ROLL_TRY_VOID(socket.connect(endpoint));
    return Client(std::move(context), std::move(socket), endpoint);
}

Result<Client> Client::connect(const StateDirectory& directory) {
    ROLL_TRY(const std::string endpoint, directory.read_endpoint());
    ROLL_TRY(const CurveKeys keys, load_curve_keys(directory.keys(), "client"));
    ROLL_TRY(const std::string server, load_public_key(directory.keys() / "server.pub"));
    return connect(endpoint, keys, server);
}

Result<Json> Client::ask(const std::string& op, const Json& args,
                         std::chrono::milliseconds timeout) {
    const protocol::Request request{++last_id_, op, args};
    const std::string frame = protocol::encode(request);
    if (frame.size() > protocol::kFrameBytesMax)
        return fail(ErrorCode::InvalidArgument, "the request is larger than 16 MiB");
    if (!socket_.send({frame})) return no_daemon(endpoint_);
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0 || !socket_.wait_input(left)) break;
        const auto message = socket_.receive();
        if (!message || message->frames.empty()) continue;
        // A reply to an earlier request that ran out of time is nobody's any more.
        if (protocol::request_id(message->frames.back()) == request.id)
            return protocol::decode_reply(message->frames.back(), request.id);
    }
    return silent(timeout);
}

tl::unexpected<Error> Client::silent(std::chrono::milliseconds timeout) const {
    if (nobody_listens(endpoint_)) return no_daemon(endpoint_);
    return fail(ErrorCode::Unavailable,
                "rolld on " + endpoint_ + " did not answer within " +
                    std::to_string(timeout.count()) +
                    " ms: it is busy, or this key is not authorized",
                "look at rolld.log; keys that may connect lie in keys/authorized");
}

std::vector<Result<Json>> Client::ask_all(const std::string& op, const std::vector<Json>& args,
                                          std::chrono::milliseconds timeout) {
    constexpr std::size_t kUnderWay = 64;
    const std::uint64_t first = last_id_ + 1;
    last_id_ += args.size();
    std::map<std::uint64_t, Result<Json>> replies;
    for (std::size_t sent = 0; replies.size() < args.size();) {
        for (; sent < args.size() && sent - replies.size() < kUnderWay; ++sent)
            socket_.send({protocol::encode(protocol::Request{first + sent, op, args[sent]})});
        if (!socket_.wait_input(timeout)) break;
        while (const auto message = socket_.receive()) {
            if (message->frames.empty()) continue;
            const std::uint64_t id = protocol::request_id(message->frames.back());
            if (id >= first && id < first + args.size())
                replies.try_emplace(id, protocol::decode_reply(message->frames.back(), id));
        }
    }
    std::vector<Result<Json>> all;
    for (std::uint64_t id = first; id < first + args.size(); ++id) {
        const auto reply = replies.find(id);
        all.push_back(reply == replies.end() ? silent(timeout) : std::move(reply->second));
    }
    return all;
}

}  // namespace roll::io
