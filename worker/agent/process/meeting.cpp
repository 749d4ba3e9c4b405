#include "worker/agent/process/meeting.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/json.hpp"
#include "worker/agent/host/host.hpp"
#include "worker/agent/process/clock.hpp"

namespace roll::agent {
namespace {

constexpr int kPorts = 10000;  // number of ports among which choose_port() searches

// Returns the first of the ports among which choose_port() searches.
int first_port() {
    const std::string range = read_file("/proc/sys/net/ipv4/ip_local_port_range").value_or("");
    const int lowest = std::atoi(range.c_str());
    constexpr int kUnprivileged = 1024;
    // The kernel takes the ports of connections from `range`. If there are too few ports below this
    // range, use the highest ports, which are usually above the range.
    return lowest >= kUnprivileged + kPorts ? lowest - kPorts : 65535 - kPorts;
}

// Keeps other gangs on this machine from choosing the port: binds a Unix socket to an abstract name
// (one without a file). The kernel frees the name when the last process that holds the socket ends.
// Returns an unset descriptor if another process holds the name.
io::Descriptor reserve(int port) {
    io::Descriptor held(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const std::string text = "roll-port-" + std::to_string(port);
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    if (held && ::bind(held.get(), reinterpret_cast<const sockaddr*>(&name), size) == 0)
        return held;
    return {};
}

template <class Address>
bool can_bind(Address address, int family) {
    const io::Descriptor probe(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // Without IPv6, no IPv6 socket can be made; count the port as free.
    if (!probe) return family == AF_INET6;
    const int alone = 1;
    if (family == AF_INET6)
        ::setsockopt(probe.get(), IPPROTO_IPV6, IPV6_V6ONLY, &alone, sizeof alone);
    return ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
           errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT;
}

bool is_free(int port) {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<std::uint16_t>(port));
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = four.sin_port;
    return can_bind(four, AF_INET) && can_bind(six, AF_INET6);
}

}  // namespace

Result<FreePort> choose_port(std::uint64_t seed) {
    const int first = first_port();
    for (std::uint64_t i = 0; i < kPorts; ++i) {
        const int port = first + static_cast<int>((seed + i) % kPorts);
        io::Descriptor held = reserve(port);
        if (held && is_free(port)) return FreePort{port, std::move(held)};
    }
    return fail(ErrorCode::Unavailable,
                "no TCP port from " + std::to_string(first) + " to " +
                    std::to_string(first + kPorts - 1) +
                    " is free for MASTER_PORT; stop programs that listen on these ports");
}

std::string Meeting::address_from(const std::string& own_network) const {
    if (!address.empty()) return address;
    return own_network == network ? "127.0.0.1" : host;
}

Result<void> publish(const std::string& file, const Meeting& meeting) {
    return write_file_atomically(file, Json{{"address", meeting.address},
                                            {"host", meeting.host},
                                            {"network", meeting.network},
                                            {"port", meeting.port}}
                                           .dump());
}

Result<std::optional<Meeting>> read_meeting(const std::string& file) {
    const auto text = read_file(file);
    if (!text && text.error().code == ErrorCode::NotFound) return std::nullopt;
    if (!text) return tl::unexpected(text.error());
    ROLL_TRY(const Json json, parse_json(*text));
    JsonReader r(json, "meeting");
    Meeting meeting;
    meeting.address = r.get<std::string>("address");
    meeting.host = r.get<std::string>("host");
    meeting.network = r.get<std::string>("network");
    meeting.port = r.get<int>("port");
    ROLL_TRY_VOID(r.finish_lenient());
    return meeting;
}

Result<void> GangMeeting::open(const Gang& gang) {
    gang_ = gang;
    ROLL_TRY_VOID(write_file_atomically(gang.host_file, gang.hosts));
    if (!gang.first) return {};
    ROLL_TRY(port_, choose_port(hash64(gang.meeting)));
    return publish(gang.meeting, {gang.address, host_name(), network_id(), port_.number});
}

Result<bool> GangMeeting::met() {
    if (!gang_ || met_) return true;
    ROLL_TRY(met_, read_meeting(gang_->meeting));
    const std::chrono::seconds patience(gang_->patience_seconds);
    if (met_) until_.reset();
    if (met_) return true;
    if (!until_) until_ = boot_now() + patience;
    if (boot_now() < *until_) return false;
    return fail(ErrorCode::Failed, "the first node of the job did not write " + gang_->meeting +
                                       " within " + std::to_string(patience.count()) +
                                       " s; a gang on several nodes requires an output directory "
                                       "that all of them share");
}

void GangMeeting::add_to(std::vector<std::string>& environment) const {
    if (!met_) return;
    const auto add = [&](const std::string& name, const std::string& value) {
        const auto is_name = [&](const std::string& one) { return one.starts_with(name); };
        if (std::ranges::none_of(environment, is_name)) environment.push_back(name + value);
    };
    add("MASTER_ADDR=", met_->address_from(network_id()));
    add("MASTER_PORT=", std::to_string(met_->port));
}

}  // namespace roll::agent
