// Connects ranks through NCCL, called directly without c10d.
//
// Tensors must be on the thread's current CUDA device, or small and on the CPU. CPU tensors are
// copied through the device. Collectives run on a stream of their own. A collective starts after
// the work that was on the current stream when the collective was issued. While the host waits for
// an operation, it polls the operation, NCCL's asynchronous error and the clock. Therefore, the
// host notices a lost peer and never blocks in a kernel. Before PeerLost is thrown, all NCCL
// communicators of this object are aborted.
//
// Each send or receive uses a link: an NCCL communicator of two ranks, with a stream of its own.
// There is one link per direction and site (activations or gradients), so a send waits only for its
// receive and never for another message. A rank's first send or receive connects its links to both
// neighbours in the ring of ranks; every rank of the group must then send or receive. Links between
// other ranks connect at their first use.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include "worker/train/comm/gloo_fabric.hpp"

namespace roll::train {

class NcclCommunicator final : public Communicator {
  public:
    // Connects the ranks of the group. Returns when all ranks are connected.
    explicit NcclCommunicator(GroupPlace place);
    ~NcclCommunicator() override;
    NcclCommunicator(const NcclCommunicator&) = delete;
    NcclCommunicator& operator=(const NcclCommunicator&) = delete;

    int rank() const override { return place_.rank; }
    int size() const override { return place_.size; }
    Ticket issue(const Transfer& transfer) override;
    void wait(Ticket ticket) override;

  private:
    struct Line {  // an NCCL communicator and its stream
        ncclComm_t comm = nullptr;
        std::optional<c10::cuda::CUDAStream> stream;
    };
    struct Running {
        std::string what;
        at::Tensor in, out;  // input and output tensors on the device
        at::Tensor given;    // the caller's output tensor
        cudaEvent_t done = nullptr;
    };
    using LinkName = std::tuple<int, int, Site>;  // sender, receiver, site

    Line connect(const std::string& name, int rank, int size);
    void connect_link(const LinkName& name);
    Line& line_of(const Transfer& transfer);
    ncclResult_t start(const Transfer& transfer, const Running& running, const Line& line);
    void finish(Running& running);
    void check_lines(const std::string& what);
    void settle(const Line& line, const std::string& what, ncclResult_t result);
    [[noreturn]] void lose(const std::string& what, const std::string& why);

    GroupPlace place_;
    Line collectives_;
    std::map<LinkName, Line> links_;
    bool has_neighbours_ = false;  // true: the links to both neighbours are connected
    Ticket issued_ = 0;
    std::map<Ticket, Running> running_;
    std::deque<Running> sent_;
};

}  // namespace roll::train
