#include "tests/bench/bare_server.hpp"

#include <chrono>
#include <thread>

#include "common/io/zmq_socket.hpp"
#include "common/protocol/worker.hpp"

namespace roll::bench {
namespace {

constexpr std::chrono::seconds kLong{3600};

// Answers libzmq's question whether a peer may connect (ZAP): yes for every peer.
void let_all_in(const io::ZmqContext& context) {
    io::ZmqSocket desk(context, io::ZmqType::Reply);
    if (!desk.bind("inproc://zeromq.zap.01")) return;
    for (;;) {
        desk.wait_input(kLong);
        while (const auto asked = desk.receive())
            desk.send(
                {"1.0", asked->frames.size() > 1 ? asked->frames[1] : "", "200", "OK", "", ""});
    }
}

// Returns the sequence number in a heartbeat. Needs no JSON parser, because a heartbeat has only
// one.
std::uint64_t sequence_of(const std::string& frame) {
    constexpr std::string_view kName = "\"sequence\":";
    const std::size_t at = frame.find(kName);
    return at == frame.npos ? 0 : std::strtoull(frame.c_str() + at + kName.size(), nullptr, 10);
}

}  // namespace

Result<void> be_bare_server(const io::CurveKeys& keys, const std::string& endpoint) {
    const io::ZmqContext context;
    const std::jthread desk([&context] { let_all_in(context); });
    io::ZmqSocket socket(context, io::ZmqType::Router);
    socket.set_curve_server(keys, "bare");
    ROLL_TRY_VOID(socket.bind(endpoint));
    protocol::Answer answer;
    answer.incarnation = 1;
    for (;;) {
        socket.wait_input(kLong);
        while (const auto message = socket.receive()) {
            answer.sequence = sequence_of(message->frames.back());
            socket.send({message->frames.front(), protocol::encode(answer)});
        }
    }
}

}  // namespace roll::bench
