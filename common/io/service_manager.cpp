#include "common/io/service_manager.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/number.hpp"

namespace roll::io {
namespace {

// Returns the value of a variable and removes the variable from the environment.
std::string take_variable(const char* name) {
    const char* value = std::getenv(name);
    std::string taken = value == nullptr ? "" : value;
    ::unsetenv(name);
    return taken;
}

bool is_supported(const std::string& address) {
    const bool is_unix = address.starts_with('/') || address.starts_with('@');
    return is_unix && address.size() > 1 && address.size() < sizeof(sockaddr_un::sun_path);
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
    ServiceManager manager;
    manager.address_ = take_variable("NOTIFY_SOCKET");
    const auto period = parse_number<std::int64_t>(take_variable("WATCHDOG_USEC"));
    const std::string watched = take_variable("WATCHDOG_PID");
    if (!is_supported(manager.address_)) return {};
    manager.socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!manager.socket_) return {};
    const timeval patience{.tv_sec = 1, .tv_usec = 0};
    ::setsockopt(manager.socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    const bool is_ours = watched.empty() || watched == std::to_string(::getpid());
    if (period && is_ours)
        manager.watchdog_ = std::chrono::floor<std::chrono::milliseconds>(
            std::chrono::microseconds(std::max<std::int64_t>(*period, 0)));
    return manager;
}

void ServiceManager::tell(std::string_view assignments) const {
    if (!socket_) return;
    sockaddr_un target{};
    target.sun_family = AF_UNIX;
    std::ranges::copy(address_, target.sun_path);
    auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
    // An abstract name begins with a zero byte and has no zero byte at its end.
    if (target.sun_path[0] == '@')
        target.sun_path[0] = '\0';
    else
        ++length;
    ::sendto(socket_.get(), assignments.data(), assignments.size(), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&target), length);
}

}  // namespace roll::io
