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
    struct Reduction {
        std::vector<at::Tensor> parts;  // tensor of each rank, kept until all ranks have arrived
        int missing = 0;
        int unread = 0;  // number of ranks that have not yet waited for the result
    };

    const int size_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::tuple<int, int, Channel>, std::deque<at::Tensor>> channels_;
    // reductions by ticket; all ranks get the same ticket for the same reduction
    std::map<Communicator::Ticket, Reduction> reductions_;
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
    void send(const at::Tensor& tensor, int to, Channel channel) override;
    void recv(at::Tensor& tensor, int from, Channel channel) override;
    Ticket all_reduce(const at::Tensor& tensor) override;
    void wait(Ticket ticket) override;

  private:
    LocalGroup& group_;
    int rank_;
};

}  // namespace roll::train
