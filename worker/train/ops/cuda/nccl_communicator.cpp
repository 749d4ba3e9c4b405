#include "worker/train/ops/cuda/nccl_communicator.hpp"

#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>

#include "common/check.hpp"

namespace roll::train {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kAsk{20};

ncclDataType_t type_of(const at::Tensor& tensor) {
    switch (tensor.scalar_type()) {
        case at::kFloat: return ncclFloat32;
        case at::kDouble: return ncclFloat64;
        case at::kBFloat16: return ncclBfloat16;
        case at::kHalf: return ncclFloat16;
        case at::kLong: return ncclInt64;
        default: TORCH_CHECK(false, "NCCL is not used for ", tensor.scalar_type());
    }
}

at::Tensor on_device(const at::Tensor& tensor) {
    const at::Device device(at::kCUDA, c10::cuda::current_device());
    return tensor.defined() ? tensor.to(device).contiguous() : tensor;
}

std::string reason(ncclResult_t result) {
    return std::string(ncclGetErrorString(result)) + " " + ncclGetLastError(nullptr);
}

}  // namespace

NcclCommunicator::NcclCommunicator(GroupPlace place) : place_(std::move(place)) {
    collectives_ = connect("collectives", place_.rank, place_.size);
}

NcclCommunicator::~NcclCommunicator() {
    if (collectives_.comm != nullptr) ncclCommAbort(collectives_.comm);
    for (const auto& [name, link] : links_)
        if (link.comm != nullptr) ncclCommAbort(link.comm);
}

// Connects `size` ranks, of which this rank is number `rank`. NCCL's call does not block, so
// PeerLost can be thrown if a rank never connects.
NcclCommunicator::Line NcclCommunicator::connect(const std::string& name, int rank, int size) {
    ncclUniqueId id;
    std::vector<std::uint8_t> bytes;
    if (rank == 0) {
        const ncclResult_t result = ncclGetUniqueId(&id);
        if (result != ncclSuccess) lose("connecting " + name, reason(result));
        bytes.resize(sizeof id);
        std::memcpy(bytes.data(), &id, sizeof id);
    }
    bytes = place_.exchange(name, bytes);
    ROLL_CHECK(bytes.size() == sizeof id);
    std::memcpy(&id, bytes.data(), sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    Line line{nullptr, c10::cuda::getStreamFromPool(/*isHighPriority=*/true)};
    const ncclResult_t result = ncclCommInitRankConfig(&line.comm, size, id, rank, &config);
    try {
        settle(line, "connecting " + name, result);
    } catch (const PeerLost&) {
        if (line.comm != nullptr) ncclCommAbort(line.comm);
        throw;
    }
    return line;
}

void NcclCommunicator::connect_link(const LinkName& name) {
    const auto& [from, to, site] = name;
    if (links_.contains(name) || (from != rank() && to != rank())) return;
    const std::string key = "link " + std::to_string(from) + " " + std::to_string(to) + " " +
                            std::to_string(static_cast<int>(site));
    links_.emplace(name, connect(key, to == rank() ? 1 : 0, 2));
}

// Returns the NCCL communicator for an operation. A link is connected at its first use. Every rank
// connects the links between neighbours in the same order. Otherwise, two ranks could wait for each
// other on different links.
NcclCommunicator::Line& NcclCommunicator::line_of(const Transfer& transfer) {
    if (transfer.is_collective()) return collectives_;
    if (!std::exchange(has_neighbours_, true)) {
        std::set<LinkName> links;
        for (int from = 0; from < size(); ++from) {
            const int to = (from + 1) % size();
            for (const Site site : {Site::Activation, Site::Gradient})
                links.insert({{from, to, site}, {to, from, site}});
        }
        for (const LinkName& link : links) connect_link(link);
    }
    const bool sends = transfer.kind == Transfer::Kind::Send;
    const LinkName name{sends ? rank() : transfer.peer, sends ? transfer.peer : rank(),
                        transfer.tag.site};
    connect_link(name);
    return links_.at(name);
}

// Waits until the NCCL call that returned `result` is complete. A call on a non-blocking
// communicator may return ncclInProgress; no other call may follow until the first one is complete.
void NcclCommunicator::settle(const Line& line, const std::string& what, ncclResult_t result) {
    const auto deadline = Clock::now() + place_.timeout;
    while (result == ncclInProgress) {
        if (Clock::now() > deadline) lose(what, "no answer in time");
        std::this_thread::sleep_for(kAsk);
        const ncclResult_t asked = ncclCommGetAsyncError(line.comm, &result);
        if (asked != ncclSuccess) lose(what, reason(asked));
    }
    if (result != ncclSuccess) lose(what, reason(result));
}

void NcclCommunicator::lose(const std::string& what, const std::string& why) {
    if (collectives_.comm != nullptr) ncclCommAbort(std::exchange(collectives_.comm, nullptr));
    for (auto& [name, link] : links_)
        if (link.comm != nullptr) ncclCommAbort(std::exchange(link.comm, nullptr));
    throw PeerLost(place_.name + " " + what + ": " + why);
}

ncclResult_t NcclCommunicator::start(const Transfer& transfer, const Running& running,
                                     const Line& line) {
    const at::Tensor &in = running.in, &out = running.out;
    const auto count = [](const at::Tensor& x) { return static_cast<std::size_t>(x.numel()); };
    const ncclDataType_t type = type_of(in.defined() ? in : out);
    const ncclRedOp_t reduce = transfer.reduce == Reduce::Sum ? ncclSum : ncclMax;
    cudaStream_t stream = line.stream->stream();
    switch (transfer.kind) {
        case Transfer::Kind::AllReduce:
            return ncclAllReduce(in.const_data_ptr(), out.data_ptr(), count(in), type, reduce,
                                 line.comm, stream);
        case Transfer::Kind::AllGather:
            return ncclAllGather(in.const_data_ptr(), out.data_ptr(), count(in), type, line.comm,
                                 stream);
        case Transfer::Kind::ReduceScatter:
            return ncclReduceScatter(in.const_data_ptr(), out.data_ptr(), count(out), type, reduce,
                                     line.comm, stream);
        case Transfer::Kind::Broadcast:
            return ncclBroadcast(in.const_data_ptr(), out.data_ptr(), count(in), type,
                                 transfer.peer, line.comm, stream);
        case Transfer::Kind::Send:  // the receiver is rank 1 of the link's communicator
            return ncclSend(in.const_data_ptr(), count(in), type, 1, line.comm, stream);
        case Transfer::Kind::Receive:
            return ncclRecv(out.data_ptr(), count(out), type, 0, line.comm, stream);
    }
    return ncclInvalidArgument;
}

// Starts the transfer. It runs after the work that is now on the current stream.
Communicator::Ticket NcclCommunicator::issue(const Transfer& transfer) {
    while (!sent_.empty() && cudaEventQuery(sent_.front().done) == cudaSuccess) {
        C10_CUDA_CHECK(cudaEventDestroy(sent_.front().done));
        sent_.pop_front();
    }
    const std::string what = text(transfer);
    Line& line = line_of(transfer);
    if (line.comm == nullptr) lose(what, "the group of ranks no longer exists");
    Running running{what, on_device(transfer.in), {}, transfer.out};
    running.out = transfer.out.is_same(transfer.in) ? running.in : on_device(transfer.out);
    cudaEvent_t before = nullptr;
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&before, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&running.done, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventRecord(before, c10::cuda::getCurrentCUDAStream().stream()));
    C10_CUDA_CHECK(cudaStreamWaitEvent(line.stream->stream(), before, 0));
    C10_CUDA_CHECK(cudaEventDestroy(before));
    settle(line, what, start(transfer, running, line));
    C10_CUDA_CHECK(cudaEventRecord(running.done, line.stream->stream()));
    const Ticket ticket = issued_++;
    if (transfer.kind == Transfer::Kind::Send)
        sent_.push_back(std::move(running));
    else
        running_.emplace(ticket, std::move(running));
    return ticket;
}

// Throws PeerLost if NCCL reports an error on one of the communicators.
void NcclCommunicator::check_lines(const std::string& what) {
    const auto check = [&](const Line& line) {
        ncclResult_t error = ncclSuccess;
        const ncclResult_t asked = ncclCommGetAsyncError(line.comm, &error);
        if (asked != ncclSuccess) lose(what, reason(asked));
        if (error != ncclSuccess && error != ncclInProgress) lose(what, reason(error));
    };
    check(collectives_);
    for (const auto& [name, link] : links_) check(link);
}

// Blocks the host until the operation is done, because later work on the current stream needs the
// operation's result.
void NcclCommunicator::finish(Running& running) {
    const auto deadline = Clock::now() + place_.timeout;
    for (;;) {
        const cudaError_t state = cudaEventQuery(running.done);
        if (state == cudaSuccess) break;
        if (state != cudaErrorNotReady) C10_CUDA_CHECK(state);
        check_lines(running.what);
        if (Clock::now() > deadline) lose(running.what, "no answer in time");
        std::this_thread::sleep_for(kAsk);
    }
    C10_CUDA_CHECK(cudaEventDestroy(running.done));
    if (!running.given.is_same(running.out)) running.given.copy_(running.out);
}

void NcclCommunicator::wait(Ticket ticket) {
    Running running = std::move(running_.extract(ticket).mapped());
    finish(running);
}

}  // namespace roll::train
