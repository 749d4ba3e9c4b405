// Wraps a communicator and measures how long this rank waits for its peers.
#pragma once

#include <chrono>
#include <memory>

#include "worker/train/comm/communicator.hpp"

namespace roll::train {

class TimedCommunicator : public Communicator {
  public:
    // Adds the seconds that this rank waits to `waited`, which must outlive this communicator.
    TimedCommunicator(std::unique_ptr<Communicator> inner, double& waited)
        : inner_(std::move(inner)),
          waited_(waited) {}

    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }
    void send(const at::Tensor& tensor, int to, Channel channel) override {
        inner_->send(tensor, to, channel);
    }
    void recv(at::Tensor& tensor, int from, Channel channel) override {
        const auto start = Clock::now();
        inner_->recv(tensor, from, channel);
        add(start);
    }
    Ticket all_reduce(const at::Tensor& tensor) override { return inner_->all_reduce(tensor); }
    void wait(Ticket ticket) override {
        const auto start = Clock::now();
        inner_->wait(ticket);
        add(start);
    }

  private:
    using Clock = std::chrono::steady_clock;
    void add(Clock::time_point start) {
        waited_ += std::chrono::duration<double>(Clock::now() - start).count();
    }

    std::unique_ptr<Communicator> inner_;
    double& waited_;
};

}  // namespace roll::train
