// A network that takes its time and changes nothing: a pretended second replica that holds zeros.
// Each reduction of more than one number takes `delay`, one after the other, on a thread of its
// own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "worker/train/comm/communicator.hpp"

namespace roll::train {

class SlowNetwork final : public Communicator {
  public:
    using Clock = std::chrono::steady_clock;

    int rank() const override { return 0; }
    int size() const override { return 2; }
    void send(const at::Tensor&, int, Channel) override {}
    void recv(at::Tensor&, int, Channel) override {}

    Ticket all_reduce(const at::Tensor& tensor) override {
        const std::lock_guard lock(mutex_);
        queue_.push_back(tensor.numel() > 1 ? delay_ : Clock::duration(0));
        changed_.notify_all();
        return issued_++;
    }
    void wait(Ticket ticket) override {
        const auto start = Clock::now();
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return done_ > ticket; });
        waited_ += Clock::now() - start;
    }

    // From now on; with it, the time that wait() has taken since the last call.
    Clock::duration set_delay(Clock::duration delay) {
        const std::lock_guard lock(mutex_);
        delay_ = delay;
        return std::exchange(waited_, Clock::duration(0));
    }

  private:
    void run(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [&] { return !queue_.empty(); })) {
            const Clock::duration delay = queue_.front();
            queue_.pop_front();
            lock.unlock();
            std::this_thread::sleep_for(delay);
            lock.lock();
            ++done_;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<Clock::duration> queue_;
    Clock::duration delay_{0}, waited_{0};
    Ticket issued_ = 0, done_ = 0;
    std::jthread network_{[this](const std::stop_token& stop) { run(stop); }};  // uses the others
};

}  // namespace roll::train
