// Wraps a communicator and measures how long this rank waits for its peers.
#pragma once

#include <memory>
#include <set>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/comm/phase_clock.hpp"

namespace roll::train {

class TimedCommunicator : public Communicator {
  public:
    // Adds the time of waits to `phase` on `clock`, which must outlive this communicator. The time
    // of waits for received messages is added to Phase::Bubble.
    TimedCommunicator(std::unique_ptr<Communicator> inner, PhaseClock& clock, Phase phase)
        : inner_(std::move(inner)),
          clock_(clock),
          phase_(phase) {}

    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }
    Ticket issue(const Transfer& transfer) override {
        const Ticket ticket = inner_->issue(transfer);
        if (transfer.kind == Transfer::Kind::Receive) receives_.insert(ticket);
        return ticket;
    }
    void wait(Ticket ticket) override {
        const Phase before =
            clock_.enter_wait(receives_.erase(ticket) > 0 ? Phase::Bubble : phase_);
        inner_->wait(ticket);
        clock_.enter(before);
    }

  private:
    std::unique_ptr<Communicator> inner_;
    PhaseClock& clock_;
    Phase phase_;
    std::set<Ticket> receives_;  // tickets of receives for which wait() has not returned yet
};

}  // namespace roll::train
