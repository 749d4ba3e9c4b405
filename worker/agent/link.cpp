#include "worker/agent/link.hpp"

namespace roll::agent {
namespace {

// Time without an answer after which the state directory is read again, because rolld may have a
// new endpoint.
constexpr Millis kSilence{3000};
constexpr Millis kCheckEvery{1000};

}  // namespace

Result<void> Link::maintain(Instant now) {
    if (now - answered_ < kSilence || now - checked_ < kCheckEvery) return {};
    checked_ = now;
    ROLL_TRY(const std::string endpoint, directory_.read_endpoint());
    ROLL_TRY(const std::string server_key, io::load_public_key(directory_.keys() / "server.pub"));
    if (socket_ && endpoint == endpoint_ && server_key == server_key_) return {};
    ROLL_TRY(const io::CurveKeys keys, io::load_curve_keys(directory_.keys(), "worker"));
    auto socket = std::make_unique<io::ZmqSocket>(context_, io::ZmqType::Dealer);
    socket->set_curve_client(keys, server_key);
    ROLL_TRY_VOID(socket->connect(endpoint));
    socket_ = std::move(socket);
    endpoint_ = endpoint;
    server_key_ = server_key;
    return {};
}

void Link::send(const protocol::Heartbeat& heartbeat) {
    if (socket_) socket_->send({protocol::encode(heartbeat)});
}

void Link::send(const protocol::TerminalNews& news) {
    if (socket_) socket_->send({protocol::encode(news)});
}

void Link::send(const protocol::PieceRequest& request) {
    if (socket_) socket_->send({protocol::encode(request)});
}

std::optional<protocol::Answer> Link::receive(Instant now) {
    while (socket_) {
        const auto message = socket_->receive();
        if (!message) return std::nullopt;
        if (message->frames.empty()) continue;
        if (protocol::is_about_terminal(message->frames.back())) {
            auto order = protocol::decode_terminal_order(message->frames.back());
            if (order) terminal_orders_.push_back(*std::move(order));
            continue;
        }
        if (protocol::is_about_piece(message->frames.back())) {
            auto piece = protocol::decode_piece(message->frames.back());
            if (piece) pieces_.push_back(*std::move(piece));
            continue;
        }
        auto answer = protocol::decode_answer(message->frames.back());
        if (!answer) continue;
        answered_ = now;
        return *std::move(answer);
    }
    return std::nullopt;
}

}  // namespace roll::agent
