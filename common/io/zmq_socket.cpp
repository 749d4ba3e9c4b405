#include "common/io/zmq_socket.hpp"

#include <cerrno>
#include <utility>

#include <zmq.h>

#include "common/check.hpp"
#include "common/protocol/client.hpp"

namespace roll::io {
namespace {

constexpr int kLingerMs = 1000;
// maximum number of pending connections; after a restart of rolld, all workers connect at once
constexpr int kBacklog = 4096;
// maximum number of frames of a message; all messages of Roll have fewer
constexpr int kFramesMax = 8;
// The option ZMQ_ZAP_ENFORCE_DOMAIN: if no authenticator runs, libzmq rejects peers instead of
// accepting them without a check. libzmq has this option since 4.3.1. zmq.h defines the constant
// only if ZMQ_BUILD_DRAFT_API is defined.
constexpr int kZapEnforceDomain = 93;

int type_of(ZmqType type) {
    switch (type) {
        case ZmqType::Dealer: return ZMQ_DEALER;
        case ZmqType::Router: return ZMQ_ROUTER;
        case ZmqType::Reply: return ZMQ_REP;
    }
    return ZMQ_DEALER;
}

// A part of a received message. The destructor frees it.
struct Part {
    zmq_msg_t message{};
    Part() { zmq_msg_init(&message); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    ~Part() { zmq_msg_close(&message); }
};

Result<void> refuse(const char* verb, const std::string& endpoint) {
    const int number = zmq_errno();
    const bool usage = number == EINVAL || number == EPROTONOSUPPORT || number == ENOCOMPATPROTO ||
                       number == ENAMETOOLONG;
    std::string hint;
    if (usage) hint = "an endpoint looks like ipc:///run/roll/rolld.sock or tcp://host:7070";
    // This error is not InvalidArgument, because the interface or the name may appear later, for
    // example while the machine boots.
    if (number == ENODEV) hint = "this machine has no interface or address with this name";
    return fail(usage ? ErrorCode::InvalidArgument : ErrorCode::Refused,
                std::string("cannot ") + verb + " " + endpoint + ": " + zmq_strerror(number), hint);
}

}  // namespace

ZmqContext::ZmqContext() : context_(zmq_ctx_new()) {
    ROLL_CHECK(context_ != nullptr);
    zmq_ctx_set(context_, ZMQ_MAX_SOCKETS, 8192);
}

ZmqContext::~ZmqContext() { zmq_ctx_term(context_); }

ZmqSocket::ZmqSocket(const ZmqContext& context, ZmqType type)
    : socket_(zmq_socket(context.get(), type_of(type))) {
    ROLL_CHECK(socket_ != nullptr);
    set(ZMQ_LINGER, kLingerMs);
    set(ZMQ_RECONNECT_IVL, 100);
    set(ZMQ_RECONNECT_IVL_MAX, 2000);
    const auto frame_bytes_max = static_cast<std::int64_t>(
        type == ZmqType::Router ? protocol::kFrameReadMax : protocol::kFrameBytesMax);
    zmq_setsockopt(socket_, ZMQ_MAXMSGSIZE, &frame_bytes_max, sizeof frame_bytes_max);
}

ZmqSocket::~ZmqSocket() {
    if (socket_ != nullptr) zmq_close(socket_);
}

ZmqSocket::ZmqSocket(ZmqSocket&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)) {}

void ZmqSocket::set(int option, int value) {
    ROLL_CHECK(zmq_setsockopt(socket_, option, &value, sizeof value) == 0);
}

void ZmqSocket::set(int option, const std::string& value) {
    ROLL_CHECK(zmq_setsockopt(socket_, option, value.data(), value.size()) == 0);
}

void ZmqSocket::set_curve_server(const CurveKeys& keys, const std::string& domain) {
    set(ZMQ_CURVE_SERVER, 1);
    set(ZMQ_CURVE_SECRETKEY, keys.secret_key);
    set(ZMQ_ZAP_DOMAIN, domain);
    set(kZapEnforceDomain, 1);
    set(ZMQ_BACKLOG, kBacklog);
    // The kernel closes the connection of a vanished peer after 30 s. The heartbeats of libzmq are
    // not used, because they are slow: for each message on any connection, libzmq searches the
    // timers of all connections.
    set(ZMQ_TCP_KEEPALIVE, 1);
    set(ZMQ_TCP_KEEPALIVE_IDLE, 10);
    set(ZMQ_TCP_KEEPALIVE_INTVL, 5);
    set(ZMQ_TCP_KEEPALIVE_CNT, 4);
    // close the connection if sent data is not acknowledged for 30,000 ms
    set(ZMQ_TCP_MAXRT, 30'000);
}

void ZmqSocket::set_curve_client(const CurveKeys& keys, const std::string& server_public_key) {
    set(ZMQ_CURVE_PUBLICKEY, keys.public_key);
    set(ZMQ_CURVE_SECRETKEY, keys.secret_key);
    set(ZMQ_CURVE_SERVERKEY, server_public_key);
}

Result<void> ZmqSocket::bind(const std::string& endpoint) {
    if (zmq_bind(socket_, endpoint.c_str()) != 0) return refuse("listen on", endpoint);
    return {};
}

void ZmqSocket::unbind(const std::string& endpoint) {
    ROLL_CHECK(zmq_unbind(socket_, endpoint.c_str()) == 0);
}

Result<void> ZmqSocket::connect(const std::string& endpoint) {
    if (zmq_connect(socket_, endpoint.c_str()) != 0) return refuse("connect to", endpoint);
    return {};
}

std::string ZmqSocket::bound_endpoint() const {
    std::string endpoint(512, '\0');
    std::size_t size = endpoint.size();
    ROLL_CHECK(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, endpoint.data(), &size) == 0);
    endpoint.resize(size > 0 ? size - 1 : 0);  // zmq_getsockopt counts the final zero in `size`
    return endpoint;
}

std::optional<ZmqMessage> ZmqSocket::receive() {
    ZmqMessage message;
    for (bool more = true; more;) {
        Part part;
        if (zmq_msg_recv(&part.message, socket_, ZMQ_DONTWAIT) < 0) return std::nullopt;
        more = zmq_msg_more(&part.message) != 0;
        const char* user = zmq_msg_gets(&part.message, "User-Id");
        if (user != nullptr) message.user_id = user;
        const std::size_t size = zmq_msg_size(&part.message);
        if (size > protocol::kFrameBytesMax) {
            const char* address = zmq_msg_gets(&part.message, "Peer-Address");
            message.address = address == nullptr ? "" : address;
        }
        if (message.frames.size() < kFramesMax)
            message.frames.emplace_back(static_cast<const char*>(zmq_msg_data(&part.message)),
                                        size);
    }
    return message;
}

bool ZmqSocket::send(const std::vector<std::string>& frames) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
        const int more = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
        if (zmq_send(socket_, frames[i].data(), frames[i].size(), ZMQ_DONTWAIT | more) < 0)
            return false;
    }
    return true;
}

bool ZmqSocket::input_ready() const {
    int events = 0;
    std::size_t size = sizeof events;
    return zmq_getsockopt(socket_, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN) != 0;
}

bool ZmqSocket::wait_input(std::chrono::milliseconds timeout) const {
    zmq_pollitem_t item = {socket_, 0, ZMQ_POLLIN, 0};
    return zmq_poll(&item, 1, timeout.count()) > 0;
}

int ZmqSocket::descriptor() const {
    int fd = -1;
    std::size_t size = sizeof fd;
    ROLL_CHECK(zmq_getsockopt(socket_, ZMQ_FD, &fd, &size) == 0);
    return fd;
}

}  // namespace roll::io
