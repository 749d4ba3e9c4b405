// Tells systemd that rolld serves, how many jobs and workers it has, and that its loop turns.
//
// systemd ends a rolld that sends no watchdog message for WatchdogSec=. A thread sends these
// messages, but only if the loop has turned since the last message, or if the loop waits for the
// ledger's disk: a restart would not make that disk faster.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/io/service_manager.hpp"
#include "daemon/server/server.hpp"

namespace roll::server {

// Returns the text that `systemctl status` shows.
std::string service_status(const core::State& state);

class ServiceNotice {
  public:
    // Tells systemd that rolld is ready. `io` is the loop to watch. Does nothing if no service
    // manager started rolld.
    ServiceNotice(boost::asio::io_context& io, const io::ServiceManager& manager,
                  const Server& server);

  private:
    void beat();
    void watch(const std::stop_token& ended);

    const io::ServiceManager& manager_;
    const Server& server_;
    std::shared_ptr<const TurnTimes> times_;
    std::chrono::milliseconds spacing_;
    std::string last_status_{};
    boost::asio::steady_timer timer_;
    std::atomic<bool> has_turned_{true};
    std::mutex mutex_{};
    std::condition_variable_any waiting_{};
    std::jthread thread_{};
};

}  // namespace roll::server
