#include "daemon/gateway/authenticator.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include <fmt/format.h>
#include <pwd.h>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <zmq.h>

#include "common/check.hpp"
#include "common/io/curve_keys.hpp"

namespace roll::gateway {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kKeyBytes = 32;
constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";
// Number of ZAP requests after which a ZAP socket is replaced. The pipes for these requests take 8
// MiB.
constexpr int kMany = 256;
// Time for which a replaced ZAP socket still answers requests that were already sent to it. Such
// requests arrive within microseconds. In 250 ms, 1,200 new peers a second would let the pipes of
// the replaced socket grow to 10 MiB.
constexpr auto kOnTheirWay = 250ms;

std::string to_z85(const std::string& key) {
    std::array<char, 41> text{};
    zmq_z85_encode(text.data(), reinterpret_cast<const std::uint8_t*>(key.data()), key.size());
    return text.data();
}

std::string own_name() {
    const passwd* entry = ::getpwuid(::geteuid());
    return entry != nullptr ? entry->pw_name : fmt::format("{}", ::geteuid());
}

}  // namespace

Identity identity_of(const std::string& file, const std::string& owner) {
    constexpr std::string_view kUser = "client-";
    if (file.starts_with("worker")) return {Role::Worker, ""};
    if (file == "client") return {Role::Operator, owner};
    if (file.starts_with(kUser) && file.size() > kUser.size())
        return {Role::Client, file.substr(kUser.size())};
    return {};
}

std::optional<uid_t> uid_of(const std::string& address) {
    unsigned long uid = 0;
    int end = 0;
    if (std::sscanf(address.c_str(), "localhost:%lu:%*u:%*d%n", &uid, &end) != 1 || end == 0)
        return std::nullopt;
    return static_cast<uid_t>(uid);
}

Authenticator::Authenticator(boost::asio::io_context& io, const io::ZmqContext& context,
                             const io::ZmqSocket& server, std::filesystem::path authorized,
                             std::size_t connections_max)
    : io_(io),
      context_(context),
      connections_(context, server),
      connections_max_(connections_max),
      authorized_(std::move(authorized)),
      owner_(own_name()) {
    open_desk();
}

// Opens a new ZAP socket. libzmq asks it about each new peer, and would refuse every peer without
// it (ZmqSocket::set_curve_server).
void Authenticator::open_desk() {
    io::ZmqSocket socket(context_, io::ZmqType::Reply);
    const auto bound = socket.bind(kZapEndpoint);
    ROLL_CHECK(bound.has_value());
    desks_.emplace_back(std::make_unique<io::ZmqReader>(io_, std::move(socket)));
}

void Authenticator::start() { io::spawn(io_, serve(desks_.back())); }

void Authenticator::stop() {
    for (Desk& desk : desks_) desk.reader->stop();
}

void Authenticator::give_back_memory(std::chrono::steady_clock::time_point now) {
    connections_.open();  // reads the monitor events, so that libzmq can free their memory
    Desk& first = desks_.front();
    if (desks_.size() > 1) {
        if (now - first.replaced_at >= kOnTheirWay) first.reader->stop();
        if (first.ended) desks_.pop_front();
    } else if (first.asked >= kMany) {
        first.reader->unbind(kZapEndpoint);
        first.replaced_at = now;
        open_desk();
        start();
    }
}

bool Authenticator::allows(const std::string& key, const std::string& address) {
    refresh();
    const Role role = who(key).role;
    if (role == Role::None) return false;
    if (connections_.open() > connections_max_ && role != Role::Worker) {
        spdlog::warn("refused a client: {} clients are already connected", connections_max_);
        return false;
    }
    const auto uid = uid_of(address);
    if (!uid || *uid == ::geteuid() || *uid == 0) return true;
    spdlog::warn(
        "refused a process of user {}: it has a key of this rolld, but on this socket only rolld's "
        "own user and root may connect",
        *uid);
    return false;
}

// Answers all waiting requests. The frames of a ZAP request are: version, request id, domain,
// address, routing id, mechanism, credentials.
void Authenticator::answer_all(Desk& desk) {
    while (const auto message = desk.reader->receive()) {
        const auto& frames = message->frames;
        const bool is_curve =
            frames.size() == 7 && frames[5] == "CURVE" && frames[6].size() == kKeyBytes;
        const std::string key = is_curve ? to_z85(frames[6]) : "";
        const bool allowed = is_curve && allows(key, frames[3]);
        const std::string id = frames.size() > 1 ? frames[1] : "";
        ++desk.asked;
        desk.reader->send({"1.0", id, allowed ? "200" : "400", allowed ? "OK" : "unknown key",
                           allowed ? key : "", ""});
    }
}

io::Task<void> Authenticator::serve(Desk& desk) {
    bool open = true;
    while (open) {
        open = co_await desk.reader->readable();
        answer_all(desk);  // Answer the queued requests even after stop().
    }
    desk.ended = true;
}

// Reads the keys again if the modification time of their directory has changed.
void Authenticator::refresh() {
    std::error_code error;
    const auto changed = std::filesystem::last_write_time(authorized_, error);
    if (!error && changed == read_at_) return;
    names_ = io::read_authorized(authorized_);
    // Two changes may have the same modification time, so a directory that changed recently is read
    // again.
    const bool settled =
        std::filesystem::file_time_type::clock::now() - changed > std::chrono::seconds(2);
    read_at_ = !error && settled ? changed : std::filesystem::file_time_type{};
}

Identity Authenticator::who(const std::string& user_id) const {
    const auto found = names_.find(user_id);
    return found == names_.end() ? Identity{} : identity_of(found->second, owner_);
}

Identity Authenticator::owner() const {
    const bool admitted =
        std::ranges::any_of(names_, [](const auto& key) { return key.second == "client"; });
    return admitted ? identity_of("client", owner_) : Identity{};
}

Role Authenticator::role_of(const std::string& user) const {
    Role role = Role::None;
    for (const auto& [key, file] : names_) {
        const Identity identity = identity_of(file, owner_);
        if (identity.user != user || identity.role == Role::Worker) continue;
        if (role != Role::Operator) role = identity.role;
    }
    return role;
}

}  // namespace roll::gateway
