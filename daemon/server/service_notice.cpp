#include "daemon/server/service_notice.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace roll::server {
namespace {

constexpr std::chrono::milliseconds kStatusEvery{10'000};

// Returns the time between two messages to systemd's watchdog: a third of the watchdog's time
// limit, so that a single late message does no harm.
std::chrono::milliseconds spacing_of(std::chrono::milliseconds watchdog) {
    const bool is_watched = watchdog > std::chrono::milliseconds(0);
    return is_watched ? std::min(watchdog / 3, kStatusEvery) : kStatusEvery;
}

}  // namespace

std::string service_status(const core::State& state) {
    const std::size_t running = state.index.running.size();
    return fmt::format("jobs: {} running, {} waiting; workers: {}", running,
                       state.index.open.size() - running, state.workers.size());
}

ServiceNotice::ServiceNotice(boost::asio::io_context& io, const io::ServiceManager& manager,
                             const Server& server)
    : manager_(manager),
      server_(server),
      times_(server.times()),
      spacing_(spacing_of(manager.watchdog())),
      timer_(io) {
    if (!manager.is_there()) return;
    manager_.tell("READY=1");
    beat();
    if (manager.watchdog() > std::chrono::milliseconds(0))
        thread_ = std::jthread([this](const std::stop_token& ended) { watch(ended); });
}

// Records that the loop turns, and schedules the next call.
void ServiceNotice::beat() {
    has_turned_ = true;
    if (std::string status = service_status(server_.state()); status != last_status_) {
        manager_.tell("STATUS=" + status);
        last_status_ = std::move(status);
    }
    timer_.expires_after(spacing_);
    timer_.async_wait([this](const boost::system::error_code& error) {
        if (!error) beat();
    });
}

void ServiceNotice::watch(const std::stop_token& ended) {
    std::unique_lock lock(mutex_);
    while (!ended.stop_requested()) {
        if (has_turned_.exchange(false) || times_->is_writing) manager_.tell("WATCHDOG=1");
        waiting_.wait_for(lock, ended, spacing_, [] { return false; });
    }
}

}  // namespace roll::server
