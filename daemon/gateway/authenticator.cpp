#include "daemon/gateway/authenticator.hpp"

#include <array>

#include <zmq.h>

#include "common/check.hpp"
#include "common/io/curve_keys.hpp"

namespace roll::gateway {
namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";

io::ZmqSocket zap_socket(const io::ZmqContext& context) {
    io::ZmqSocket socket(context, io::ZmqType::Reply);
    const auto bound = socket.bind(kZapEndpoint);
    ROLL_CHECK(bound.has_value());
    return socket;
}

std::string to_z85(const std::string& key) {
    std::array<char, 41> text{};
    zmq_z85_encode(text.data(), reinterpret_cast<const std::uint8_t*>(key.data()), key.size());
    return text.data();
}

}  // namespace

Authenticator::Authenticator(boost::asio::io_context& io, const io::ZmqContext& context,
                             std::filesystem::path authorized)
    : reader_(io, zap_socket(context)),
      authorized_(std::move(authorized)) {}

// ZAP request: version, request id, domain, address, routing id, mechanism, credentials.
io::Task<void> Authenticator::run() {
    while (co_await reader_.readable()) {
        while (const auto message = reader_.receive()) {
            const auto& frames = message->frames;
            const bool is_curve =
                frames.size() == 7 && frames[5] == "CURVE" && frames[6].size() == kKeyBytes;
            const std::string key = is_curve ? to_z85(frames[6]) : "";
            const bool allowed = is_curve && role_of(key) != Role::None;
            const std::string id = frames.size() > 1 ? frames[1] : "";
            reader_.send({"1.0", id, allowed ? "200" : "400", allowed ? "OK" : "unknown key",
                          allowed ? key : "", ""});
        }
    }
}

// The directory's time of change says when a key came or went.
void Authenticator::refresh() {
    std::error_code error;
    const auto changed = std::filesystem::last_write_time(authorized_, error);
    if (!error && changed == read_at_) return;
    names_ = io::read_authorized(authorized_);
    // A change within the clock's grain would not be seen: a young directory is read again.
    const bool settled =
        std::filesystem::file_time_type::clock::now() - changed > std::chrono::seconds(2);
    read_at_ = !error && settled ? changed : std::filesystem::file_time_type{};
}

Role Authenticator::role_of(const std::string& user_id) {
    refresh();
    const auto found = names_.find(user_id);
    if (found == names_.end()) return Role::None;
    if (found->second.starts_with("worker")) return Role::Worker;
    return found->second.starts_with("client") ? Role::Client : Role::None;
}

}  // namespace roll::gateway
