#include "tests/worker/agent/fake_rolld.hpp"

#include <algorithm>
#include <array>

#include <zmq.h>

#include "common/check.hpp"
#include "common/files.hpp"
#include "common/io/beacon.hpp"
#include "common/io/state_directory.hpp"
#include "common/protocol/pieces.hpp"
#include "worker/agent/process/clock.hpp"

namespace roll::agent {
namespace {

constexpr Millis kDeadline{60000};

std::string receive_frame(void* socket) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    ROLL_CHECK(zmq_msg_recv(&message, socket, 0) >= 0);
    std::string text(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
    zmq_msg_close(&message);
    return text;
}

}  // namespace

FakeRolld::FakeRolld(const std::filesystem::path& directory, std::uint64_t incarnation)
    : directory_(directory),
      incarnation_(incarnation),
      context_(zmq_ctx_new()),
      socket_(zmq_socket(context_, ZMQ_ROUTER)) {
    const io::StateDirectory state(directory);
    ROLL_CHECK(state.make().has_value());
    const auto keys = io::load_or_make_curve_keys(state.keys(), "server").value();
    ROLL_CHECK(io::load_or_make_curve_keys(state.keys(), "worker").has_value());
    const int one = 1;
    const int zero = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(socket_, ZMQ_CURVE_SERVER, &one, sizeof one);
    zmq_setsockopt(socket_, ZMQ_CURVE_SECRETKEY, keys.secret_key.c_str(), 41);
    ROLL_CHECK(zmq_bind(socket_, "tcp://127.0.0.1:*") == 0);
    std::array<char, 256> endpoint{};
    std::size_t size = endpoint.size();
    zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, endpoint.data(), &size);
    ROLL_CHECK(write_file_atomically(state.endpoint_file(), std::string(endpoint.data()) + "\n"));
}

FakeRolld::~FakeRolld() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
}

void FakeRolld::beat() {
    if (boot_now().count() < next_beat_) return;
    next_beat_ = boot_now().count() + 1000;
    const io::Beacon beacon{"cluster", incarnation_, "nonce", "here", "there", "", counter_++};
    ROLL_CHECK(io::write_beacon(directory_ / "beacon", beacon).has_value());
}

bool FakeRolld::serve_until(const std::function<bool()>& holds) {
    for (const Instant deadline = boot_now() + kDeadline; boot_now() < deadline;) {
        if (holds()) return true;
        beat();
        zmq_pollitem_t item{socket_, 0, ZMQ_POLLIN, 0};
        zmq_poll(&item, 1, 20);
        if ((item.revents & ZMQ_POLLIN) != 0) receive();
    }
    return false;
}

bool FakeRolld::silent_until(const std::function<bool()>& holds, bool beacon_grows) {
    for (const Instant deadline = boot_now() + kDeadline; boot_now() < deadline;) {
        if (holds()) return true;
        if (beacon_grows) beat();
        zmq_poll(nullptr, 0, 20);
    }
    return false;
}

void FakeRolld::receive() {
    const std::string peer = receive_frame(socket_);
    const std::string frame = receive_frame(socket_);
    if (protocol::is_about_piece(frame)) {
        const auto request = protocol::decode_piece_request(frame).value();
        return send(peer,
                    protocol::encode(protocol::Piece{request.piece, "", piece(request.piece)}));
    }
    const auto heartbeat = protocol::decode_heartbeat(frame);
    ROLL_CHECK(heartbeat.has_value());
    confirmed += heartbeat->heard_recently ? 1 : 0;
    if (std::ranges::find(sessions, heartbeat->session) == sessions.end())
        sessions.push_back(heartbeat->session);
    last_ = *heartbeat;
    answer(peer, last_);
}

void FakeRolld::answer(const std::string& peer, const protocol::Heartbeat& heartbeat) {
    protocol::Answer answer;
    answer.incarnation = incarnation_;
    answer.sequence = heartbeat.sequence;
    answer.counter = counter_;
    answer.beacon = (directory_ / "beacon").string();
    answer.refused = refused;
    answer.keep_asking = keep_asking;
    if (!refused.empty()) return send(peer, protocol::encode(answer));
    for (const auto& running : heartbeat.running) {
        std::erase_if(start, [&](const auto& order) { return order.attempt == running.attempt; });
        for (const auto& checkpoint : running.checkpoints)
            recorded[running.attempt].push_back(checkpoint.step);
        answer.recorded.push_back({running.attempt, recorded[running.attempt], false});
        if (running.phase == protocol::Phase::Ended) {
            ended[running.attempt] = running;
            current.erase(running.attempt);
        } else if (!current.contains(running.attempt)) {
            answer.fenced.push_back(running.attempt);
        }
    }
    for (const auto& order : start) current.insert(order.attempt);
    answer.start = start;
    for (const AttemptKey& key : current) {
        if (stop.contains(key))
            answer.stop.push_back(stop.at(key));
        else
            answer.keep.push_back(key);
    }
    send(peer, protocol::encode(answer));
}

void FakeRolld::send(const std::string& peer, const std::string& frame) {
    zmq_send(socket_, peer.data(), peer.size(), ZMQ_SNDMORE);
    zmq_send(socket_, frame.data(), frame.size(), 0);
}

std::optional<protocol::RunningAttempt> FakeRolld::entry(const AttemptKey& key) const {
    for (const auto& running : last_.running)
        if (running.attempt == key) return running;
    return std::nullopt;
}

std::optional<protocol::Phase> FakeRolld::phase(const AttemptKey& key) const {
    const auto found = entry(key);
    return found ? std::optional(found->phase) : std::nullopt;
}

}  // namespace roll::agent
