// Wraps a communicator and records its transfers. Explains a transfer that does not end.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/train/comm/flight_recorder.hpp"

namespace roll::train {

class WatchedCommunicator final : public Communicator {
  public:
    // `recorder` must outlive this communicator. `ranks` are the numbers that the group's ranks
    // have in the job.
    WatchedCommunicator(std::unique_ptr<Communicator> inner, std::string name,
                        const std::vector<int>& ranks, FlightRecorder& recorder)
        : inner_(std::move(inner)),
          name_(std::move(name)),
          recorder_(recorder) {
        recorder_.join(name_, ranks);
    }

    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }
    Ticket issue(const Transfer& transfer) override {
        const FlightRecorder::Id id = recorder_.issued(name_, transfer);
        const Ticket ticket = inner_->issue(transfer);
        if (transfer.kind != Transfer::Kind::Send) ids_.emplace(ticket, id);
        return ticket;
    }
    void wait(Ticket ticket) override {
        const FlightRecorder::Id id = ids_.extract(ticket).mapped();
        recorder_.waits(id);
        try {
            inner_->wait(ticket);
        } catch (const PeerLost& lost) {
            const std::string why = recorder_.explain();
            if (why.empty()) throw;
            throw PeerLost(why + " (" + lost.what() + ")");
        }
        recorder_.done(id);
    }

  private:
    std::unique_ptr<Communicator> inner_;
    std::string name_;
    FlightRecorder& recorder_;
    std::map<Ticket, FlightRecorder::Id> ids_;
};

}  // namespace roll::train
