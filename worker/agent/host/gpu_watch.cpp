#include "worker/agent/host/gpu_watch.hpp"

#include <chrono>
#include <thread>

namespace roll::agent {

GpuWatch::GpuWatch(std::function<std::vector<int>()> meter) : seen_(std::make_shared<Seen>()) {
    if (!meter) return;
    // Detach the thread, because a driver call may never return.
    std::thread([meter = std::move(meter), watched = std::weak_ptr(seen_)] {
        constexpr std::chrono::seconds kBetween{2};
        for (; !watched.expired(); std::this_thread::sleep_for(kBetween)) {
            std::vector<int> use = meter();
            const auto seen = watched.lock();
            if (!seen) return;
            const std::scoped_lock lock(seen->mutex);
            seen->use = std::move(use);
        }
    }).detach();
}

std::vector<int> GpuWatch::use() const {
    const std::scoped_lock lock(seen_->mutex);
    return seen_->use;
}

}  // namespace roll::agent
