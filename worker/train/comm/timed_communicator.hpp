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
    Ticket issue(const Transfer& transfer) override { return inner_->issue(transfer); }
    void wait(Ticket ticket) override {
        const auto start = Clock::now();
        inner_->wait(ticket);
        waited_ += std::chrono::duration<double>(Clock::now() - start).count();
    }

  private:
    using Clock = std::chrono::steady_clock;

    std::unique_ptr<Communicator> inner_;
    double& waited_;
};

}  // namespace roll::train
