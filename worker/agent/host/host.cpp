#include "worker/agent/host/host.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include <netdb.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/check.hpp"
#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/io/descriptor.hpp"
#include "worker/agent/host/cpus.hpp"

namespace roll::agent {

std::string host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
    return name.data();
}

namespace {

// Returns HOST and PORT of "tcp://HOST:PORT" or "tcp://[HOST]:PORT"; empty for any other endpoint.
std::pair<std::string, std::string> host_and_port(const std::string& endpoint) {
    constexpr std::string_view kTcp = "tcp://";
    const std::size_t colon = endpoint.rfind(':');
    if (!endpoint.starts_with(kTcp) || colon < kTcp.size()) return {};
    std::string host = endpoint.substr(kTcp.size(), colon - kTcp.size());
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    return {host, endpoint.substr(colon + 1)};
}

bool is_loopback(const std::string& address) {
    return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

// Returns the source address of packets to `peer`. Sends no packet.
std::string source_towards(const addrinfo& peer) {
    const io::Descriptor probe(::socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    std::array<char, NI_MAXHOST> text{};
    if (!probe || ::connect(probe.get(), peer.ai_addr, peer.ai_addrlen) != 0 ||
        ::getsockname(probe.get(), address, &size) != 0 ||
        ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
        return "";
    return text.data();
}

}  // namespace

std::string address_towards(const std::string& endpoint) {
    const auto [host, port] = host_and_port(endpoint);
    if (host.empty()) return "";
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return "";
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
    const std::string address = source_towards(*all);
    return is_loopback(address) ? "" : address;
}

std::string network_id() {
    std::error_code error;
    const auto network = std::filesystem::read_symlink("/proc/self/ns/net", error);
    const std::string boot = read_file("/proc/sys/kernel/random/boot_id").value_or("");
    return boot.substr(0, boot.find('\n')) + " " + network.string();
}

std::vector<int> allowed_cpus() {
    std::vector<int> cpus;
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);  // NOLINT: the macro's own casts
    }
    return cpus;
}

// Each cgroup (v2) that contains this process may set a quota. The smallest quota applies.
int cores() {
    constexpr std::string_view kMark = "0::";
    int least = std::max(static_cast<int>(allowed_cpus().size()), 1);
    const std::string text = read_file("/proc/self/cgroup").value_or("");
    const std::size_t at = text.find(kMark);
    if (at == std::string::npos) return least;
    const std::size_t begin = at + kMark.size();
    std::filesystem::path group = text.substr(begin, text.find('\n', begin) - begin);
    for (; group.has_relative_path(); group = group.parent_path()) {
        const auto quota = read_file("/sys/fs/cgroup" + group.string() + "/cpu.max");
        const int most = quota ? cpus_of_quota(*quota) : 0;
        if (most > 0) least = std::min(least, most);
    }
    return least;
}

std::string draw_session() {
    std::array<std::uint64_t, 2> bits{};
    ROLL_CHECK(::getrandom(bits.data(), sizeof bits, 0) == sizeof bits);
    return to_hex(bits[0]) + to_hex(bits[1]);
}

}  // namespace roll::agent
