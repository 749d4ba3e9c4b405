// Tells the service manager (systemd) how a program is doing, with the datagrams that sd_notify(3)
// describes. A program that no service manager started sends nothing.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/io/descriptor.hpp"

namespace roll::io {

class ServiceManager {
  public:
    ServiceManager() = default;

    // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Removes these variables from the
    // environment, because a job must not send messages in the name of this program. Call this
    // function before any thread is started.
    static ServiceManager from_environment();

    bool is_there() const { return static_cast<bool>(socket_); }

    // Sends assignments, one on each line, for example "READY=1\nSTATUS=serves". If the service
    // manager does not read, waits at most a second and then drops the assignments.
    void tell(std::string_view assignments) const;

    // Returns the time within which the service manager expects the next "WATCHDOG=1"; 0: the
    // service manager expects none.
    std::chrono::milliseconds watchdog() const { return watchdog_; }

  private:
    Descriptor socket_{};
    std::string address_{};  // as in NOTIFY_SOCKET: a path, or '@' and an abstract name
    std::chrono::milliseconds watchdog_{0};
};

}  // namespace roll::io
