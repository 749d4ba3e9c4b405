// A slow network: what Local does, on a thread of its own, a delay late for each reduction.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include <c10/core/InferenceMode.h>

#include "worker/train/comm/communicator.hpp"

namespace roll::train {

class DelayedCommunicator final : public Communicator {
  public:
    DelayedCommunicator(Communicator& inner, std::chrono::milliseconds delay)
        : inner_(inner),
          delay_(delay),
          network_([this](std::stop_token stop) { run(stop); }) {}

    int rank() const override { return inner_.rank(); }
    int size() const override { return inner_.size(); }
    void send(const at::Tensor& tensor, int to, Channel channel) override {
        inner_.send(tensor, to, channel);
    }
    void recv(at::Tensor& tensor, int from, Channel channel) override {
        inner_.recv(tensor, from, channel);
    }
    Ticket all_reduce(const at::Tensor& tensor) override {
        const std::lock_guard lock(mutex_);
        queue_.push_back(tensor);
        changed_.notify_all();
        return issued_++;
    }
    void wait(Ticket ticket) override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return done_ > ticket; });
    }

  private:
    void run(const std::stop_token& stop) {
        const c10::InferenceMode no_autograd;
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [&] { return !queue_.empty(); })) {
            const at::Tensor tensor = queue_.front();
            queue_.pop_front();
            lock.unlock();
            if (tensor.numel() > 1) std::this_thread::sleep_for(delay_);  // buckets, not counts
            inner_.wait(inner_.all_reduce(tensor));
            lock.lock();
            ++done_;
            changed_.notify_all();
        }
    }

    Communicator& inner_;
    const std::chrono::milliseconds delay_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<at::Tensor> queue_;
    Ticket issued_ = 0, done_ = 0;
    std::jthread network_;  // last: it uses the others
};

}  // namespace roll::train
