// Connects ranks that are threads of one process, for a single rank and for tests. Deterministic:
// sums are added in rank order, so timing does not change the result.
//
// Strict: misuse that might go unnoticed on a network fails here. An input is copied when its
// transfer is issued. If a rank writes to the input before the result is delivered, GroupFault is
// thrown. Outputs are NaN until wait(). At each sequence number, the transfers of all ranks must
// have the same kind, type, size and tag. Otherwise, issuing the transfer throws GroupFault. Its
// message names the group, the number and both transfers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/comm/plant.hpp"

namespace roll::train {

class Baton;

// Thrown when ranks misuse a group.
class GroupFault : public std::logic_error {
  public:
    using std::logic_error::logic_error;
};

class LocalGroup {
  public:
    explicit LocalGroup(int size, std::string name = "local")
        : size_(size),
          name_(std::move(name)),
          issued_(static_cast<std::size_t>(size)),
          left_(issued_.size()) {}

  private:
    friend class LocalCommunicator;
    friend class LocalFabric;
    using Ticket = Communicator::Ticket;
    struct Collective {
        std::vector<Transfer> transfers;  // for each rank: its transfer
        std::vector<at::Tensor> inputs;   // for each rank: a copy of its input
        std::vector<std::size_t> hashes;
        int missing = 0;
        int unread = 0;     // number of ranks that have not yet waited for the result
        at::Tensor result;  // defined once all ranks have arrived
        at::Tensor before;  // result of the previous collective with the same Site and size
    };
    struct Message {
        Transfer sent;
        at::Tensor input;  // copy of the sender's input
        std::size_t hash;
        at::Tensor before;  // the previous message on this link; undefined if there is none
    };
    struct Link {
        Ticket sent = 0, received = 0;  // numbers of messages sent and received
        std::map<Ticket, Message> messages;
        at::Tensor last;  // the last message on this link
    };

    const int size_;
    const std::string name_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::tuple<int, int, Site>, Link> links_;  // key: sender, receiver and site
    // key: ticket; all ranks have the same ticket for the same collective
    std::map<Ticket, Collective> collectives_;
    std::vector<Ticket> issued_;  // next ticket of each rank
    std::vector<bool> left_;      // for each rank: true if it has left the group
    Baton* baton_ = nullptr;      // null: the threads of the ranks run simultaneously
    std::vector<int> ranks_;      // each rank's number in the fabric; empty without a baton
    bool rendezvous_ = false;     // true: a send waits until its receive is issued
    std::vector<Plant> plants_;
    std::function<void()> on_plant_;
    // key: site and size; value: the result of the last collective with this key
    std::map<std::pair<Site, std::int64_t>, at::Tensor> last_;
};

// The communicator of one rank. The destructor removes the rank from the group. If another rank
// waits for this rank afterwards, that rank gets PeerLost.
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
    using Lock = std::unique_lock<std::mutex>;
    struct Receipt {
        Transfer transfer;
        Ticket number;  // number of the expected message among all messages on this link
    };

    Ticket issue_collective(const Transfer& transfer);
    void send(const Transfer& transfer, Lock& lock);
    void await_message(const Receipt& receipt, Lock& lock);
    void await_ranks(Ticket ticket, Lock& lock);
    void block(Lock& lock, const Transfer& transfer, const std::function<bool()>& is_ready);
    void check_untouched(const Transfer& transfer, std::size_t hash) const;
    at::Tensor with_bugs(const Transfer& transfer, const at::TensorList& inputs,
                         const at::Tensor& right, const at::Tensor& before) const;
    [[noreturn]] void fail(const std::string& what) const;

    LocalGroup& group_;
    int rank_;
    // ticket of the next receive; negative, so that it differs from the tickets of collectives
    Ticket receives_ = -1;
    std::map<Ticket, Receipt> receipts_;  // key: ticket of the receive
};

}  // namespace roll::train
