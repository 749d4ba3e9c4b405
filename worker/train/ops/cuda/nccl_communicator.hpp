// Connects ranks through NCCL, called directly without c10d.
//
// Tensors must be on the thread's current CUDA device, or small and on the CPU; the latter are
// copied through the device. Collectives run on a stream of their own. They start after the work
// that was on the current stream when they were issued. To wait, the host polls the work, NCCL's
// asynchronous error and the clock, so that it notices a lost peer and never blocks in a kernel.
// Before PeerLost is thrown, all NCCL communicators of this object are aborted.
//
// send and recv use one NCCL communicator per channel, which all ranks of the group create at its
// first use. A rank's sends and receives on a channel execute in the order of issue. This order
// suits a pipeline whose stages form a line, but can deadlock in a ring.
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
    // Connects the ranks of the group. Returns once all of them are connected.
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
    struct Line {  // One NCCL communicator and the stream on which it works.
        ncclComm_t comm = nullptr;
        std::optional<c10::cuda::CUDAStream> stream;
    };
    struct Running {
        std::string what;
        at::Tensor given;      // the tensor that the caller passed
        at::Tensor on_device;  // `given` itself, or its copy on the device
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
