// Connects ranks that are threads of one process, for tests and for a single rank. Deterministic:
// the last rank to arrive sums in rank order, so timing does not change the result.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "worker/train/comm/communicator.hpp"

namespace roll::train {

class LocalGroup {
  public:
    explicit LocalGroup(int size)
        : size_(size),
          issued_(static_cast<std::size_t>(size)),
          left_(issued_.size()) {}

  private:
    friend class LocalCommunicator;
    struct Collective {
        std::vector<Transfer> parts;  // of each rank, kept until all ranks have arrived
        int missing = 0;
        int unread = 0;  // number of ranks that have not yet waited for the result
    };

    const int size_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::tuple<int, int, Site>, std::deque<at::Tensor>> messages_;  // from, to, site
    // by ticket; all ranks get the same ticket for the same collective
    std::map<Communicator::Ticket, Collective> collectives_;
    std::vector<Communicator::Ticket> issued_;  // next ticket of each rank
    std::vector<bool> left_;                    // by rank: true if it has left the group
};

// The communicator of one rank. Its destruction makes the rank leave the group; a rank that then
// waits for this rank gets PeerLost.
class LocalCommunicator final : public Communicator {
  public:
    LocalCommunicator(LocalGroup& group, int rank) : group_(group), rank_(rank) {}
    ~LocalCommunicator() override;
    LocalCommunicator(const LocalCommunicator&) = delete;
    LocalCommunicator& operator=(const LocalCommunicator&) = delete;

    int rank() const override { return rank_; }
    int size() const override { return group_.size_; }
    Ticket issue(const Transfer& transfer) override;
    void wait(Ticket ticket) override;

  private:
    void await_message(const Transfer& receive);
    void await_ranks(Ticket ticket);

    LocalGroup& group_;
    int rank_;
    Ticket receives_ = -1;                  // the next receive's ticket; they count down
    std::map<Ticket, Transfer> receiving_;  // by ticket
};

}  // namespace roll::train
