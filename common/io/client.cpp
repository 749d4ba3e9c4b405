#include "common/io/client.hpp"

#include <map>
#include <utility>

#include "common/files.hpp"
#include "common/protocol/client.hpp"

namespace roll::io {

Result<Client> Client::connect(const std::string& endpoint, const CurveKeys& keys,
                               const std::string& server_public_key) {
    ROLL_TRY(std::unique_ptr<Channel> channel, zmq_channel(endpoint, keys, server_public_key));
    return Client(std::move(channel), endpoint);
}

// Connects through the Unix socket whose path is in the file `local`. This socket exists only on
// rolld's machine. On another machine, connects to the endpoint.
Result<Client> Client::connect(const StateDirectory& directory) {
    if (const auto path = read_file(directory.local_file())) {
        if (auto channel = local_channel(*path)) return Client(std::move(channel), *path);
    }
    ROLL_TRY(const std::string endpoint, directory.read_endpoint());
    ROLL_TRY(const CurveKeys keys, load_curve_keys(directory.keys(), "client"));
    ROLL_TRY(const std::string server, load_public_key(directory.keys() / "server.pub"));
    return connect(endpoint, keys, server);
}

namespace {

// Fails if the frame is too large. rolld would close the connection after such a frame.
Result<void> check_size(const std::string& op, const std::string& frame) {
    if (frame.size() <= protocol::kFrameBytesMax) return {};
    return fail(ErrorCode::InvalidArgument,
                "the request to " + op + " has " + std::to_string(frame.size()) +
                    " bytes; allowed: at most " + std::to_string(protocol::kFrameBytesMax),
                "put large texts into files, or request less at once");
}

}  // namespace

Result<Json> Client::ask(const std::string& op, const Json& args,
                         std::chrono::milliseconds timeout) {
    const std::uint64_t id = ++last_id_;
    const std::string frame = protocol::encode_request(id, op, args);
    ROLL_TRY_VOID(check_size(op, frame));
    if (!channel_->send(frame)) return silent(timeout);
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) break;
        const auto reply = channel_->receive(left);
        if (!reply) break;
        // Skip late replies to earlier requests that timed out.
        if (protocol::request_id(*reply) == id) return protocol::decode_reply(*reply, id);
    }
    return silent(timeout);
}

Result<std::uint64_t> Client::post(const std::string& op, const Json& args) {
    const std::uint64_t id = ++last_id_;
    const std::string frame = protocol::encode_request(id, op, args);
    ROLL_TRY_VOID(check_size(op, frame));
    if (!channel_->send(frame)) return silent({});
    return id;
}

std::optional<Client::Posted> Client::next_reply(std::chrono::milliseconds timeout) {
    const auto frame = channel_->receive(timeout);
    if (!frame) return std::nullopt;
    const std::uint64_t id = protocol::request_id(*frame);
    return Posted{id, protocol::decode_reply(*frame, id)};
}

tl::unexpected<Error> Client::silent(std::chrono::milliseconds timeout) const {
    if (auto trouble = channel_->trouble()) return tl::unexpected(*std::move(trouble));
    return fail(ErrorCode::Unavailable,
                "rolld on " + endpoint_ + " did not answer within " +
                    std::to_string(timeout.count()) +
                    " ms: rolld is busy, or this key is not authorized",
                "check rolld.log; authorized keys are in keys/authorized");
}

std::vector<Result<Json>> Client::ask_all(const std::string& op, const std::vector<Json>& args,
                                          std::chrono::milliseconds timeout) {
    constexpr std::size_t kUnderWay = 64;
    const std::uint64_t first = last_id_ + 1;
    last_id_ += args.size();
    std::map<std::uint64_t, Result<Json>> replies;
    for (std::size_t sent = 0; replies.size() < args.size();) {
        for (; sent < args.size() && sent - replies.size() < kUnderWay; ++sent) {
            const std::string frame = protocol::encode_request(first + sent, op, args[sent]);
            if (const auto fits = check_size(op, frame); fits)
                channel_->send(frame);
            else
                replies.try_emplace(first + sent, tl::unexpected(fits.error()));
        }
        if (replies.size() == args.size()) break;
        const auto reply = channel_->receive(timeout);
        if (!reply) break;
        const std::uint64_t id = protocol::request_id(*reply);
        if (id >= first && id < first + args.size())
            replies.try_emplace(id, protocol::decode_reply(*reply, id));
    }
    std::vector<Result<Json>> all;
    for (std::uint64_t id = first; id < first + args.size(); ++id) {
        const auto reply = replies.find(id);
        all.push_back(reply == replies.end() ? silent(timeout) : std::move(reply->second));
    }
    return all;
}

Result<Json> LastingClient::operator()(const std::string& op, const Json& args) {
    if (!client_) {
        ROLL_TRY(Client client, Client::connect(directory_));
        client_ = std::make_shared<Client>(std::move(client));
    }
    auto reply = client_->ask(op, args, timeout_);
    if (!reply && reply.error().code == ErrorCode::Unavailable) client_.reset();
    return reply;
}

}  // namespace roll::io
