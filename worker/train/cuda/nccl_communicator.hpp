// Ranks that talk through NCCL, called directly: nothing of c10d's is between.
//
// What it is given must be of the thread's current CUDA device, or small and of the CPU; that
// travels by way of the device. Collectives run on a stream of their own, behind what the current
// stream held when they were issued. The host waits by asking: for the work, for NCCL's
// asynchronous error and for the clock, so that a peer that is gone is noticed and no kernel is
// waited for in vain. After a PeerLost every communicator of NCCL that this holds has been aborted.
//
// send and recv go through one communicator a channel, made at its first use by all ranks of the
// group. A rank's sends and receives of a channel happen in the order of issue, which suits a
// pipeline whose stages form a line, not a ring.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include "worker/train/comm/gloo_fabric.hpp"

namespace roll::train {

class NcclCommunicator final : public Communicator {
  public:
    // Returns once all ranks of the group have connected.
    explicit NcclCommunicator(GroupPlace place);
    ~NcclCommunicator() override;
    NcclCommunicator(const NcclCommunicator&) = delete;
    NcclCommunicator& operator=(const NcclCommunicator&) = delete;

    int rank() const override { return place_.rank; }
    int size() const override { return place_.size; }
    void send(const at::Tensor& tensor, int to, Channel channel) override;
    void recv(at::Tensor& tensor, int from, Channel channel) override;
    Ticket all_reduce(const at::Tensor& tensor) override;
    void wait(Ticket ticket) override;

  private:
    struct Line {  // one of NCCL's communicators and the stream of its work
        ncclComm_t comm = nullptr;
        std::optional<c10::cuda::CUDAStream> stream;
    };
    struct Running {
        std::string what;
        at::Tensor given;      // by the caller
        at::Tensor on_device;  // the same, or its copy
        cudaEvent_t done = nullptr;
    };

    Line connect(const std::string& name);
    Line& line(Channel channel);
    template <class Call>
    Running issue(Line& line, const std::string& what, const at::Tensor& tensor, const Call& call);
    void finish(Running& running);
    void settle(const Line& line, const std::string& what, ncclResult_t result);
    [[noreturn]] void lose(const std::string& what, const std::string& why);

    GroupPlace place_;
    Line reductions_;
    std::array<std::optional<Line>, 2> channels_;
    Ticket issued_ = 0;
    std::map<Ticket, Running> running_;
    std::deque<Running> sent_;
};

}  // namespace roll::train
