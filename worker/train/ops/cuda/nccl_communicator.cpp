#include "worker/train/ops/cuda/nccl_communicator.hpp"

#include <cstring>
#include <thread>
#include <utility>

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>

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

std::string reason(ncclResult_t result) {
    return std::string(ncclGetErrorString(result)) + " " + ncclGetLastError(nullptr);
}

}  // namespace

NcclCommunicator::NcclCommunicator(GroupPlace place) : place_(std::move(place)) {
    reductions_ = connect("reductions");
}

NcclCommunicator::~NcclCommunicator() {
    if (reductions_.comm != nullptr) ncclCommAbort(reductions_.comm);
    for (const auto& line : channels_)
        if (line && line->comm != nullptr) ncclCommAbort(line->comm);
}

// Connects all ranks of the group. The call is non-blocking, so that PeerLost can be thrown if a
// rank never connects.
NcclCommunicator::Line NcclCommunicator::connect(const std::string& name) {
    ncclUniqueId id;
    std::vector<std::uint8_t> bytes(sizeof id);
    if (place_.rank == 0) {
        const ncclResult_t result = ncclGetUniqueId(&id);
        if (result != ncclSuccess) lose("connecting " + name, reason(result));
        std::memcpy(bytes.data(), &id, sizeof id);
    }
    bytes = place_.from_first(name, bytes);
    ROLL_CHECK(bytes.size() == sizeof id);
    std::memcpy(&id, bytes.data(), sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    Line line{nullptr, c10::cuda::getStreamFromPool(/*isHighPriority=*/true)};
    const ncclResult_t result =
        ncclCommInitRankConfig(&line.comm, place_.size, id, place_.rank, &config);
    try {
        settle(line, "connecting " + name, result);
    } catch (const PeerLost&) {
        if (line.comm != nullptr) ncclCommAbort(line.comm);
        throw;
    }
    return line;
}

NcclCommunicator::Line& NcclCommunicator::line(Channel channel) {
    const int number = static_cast<int>(channel);
    std::optional<Line>& line = channels_[static_cast<std::size_t>(number)];
    if (!line) line = connect("channel " + std::to_string(number));
    return *line;
}

// Waits until NCCL has completed a call that returned `result`. A non-blocking communicator may
// return ncclInProgress; then no other call may follow until the first is done.
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
    if (reductions_.comm != nullptr) ncclCommAbort(std::exchange(reductions_.comm, nullptr));
    for (auto& line : channels_)
        if (line && line->comm != nullptr) ncclCommAbort(std::exchange(line->comm, nullptr));
    throw PeerLost(place_.name + " " + what + ": " + why);
}

// Enqueues call(tensor on the device, stream) behind the work that is on the current stream now.
template <class Call>
NcclCommunicator::Running NcclCommunicator::issue(Line& line, const std::string& what,
                                                  const at::Tensor& tensor, const Call& call) {
    if (line.comm == nullptr) lose(what, "the group of ranks no longer exists");
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream();
    const at::Device device(at::kCUDA, current.device_index());
    Running running{what, tensor, tensor.to(device).contiguous()};
    cudaEvent_t before = nullptr;
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&before, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&running.done, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventRecord(before, current.stream()));
    C10_CUDA_CHECK(cudaStreamWaitEvent(line.stream->stream(), before, 0));
    C10_CUDA_CHECK(cudaEventDestroy(before));
    settle(line, what, call(running.on_device, line.stream->stream()));
    C10_CUDA_CHECK(cudaEventRecord(running.done, line.stream->stream()));
    return running;
}

// Blocks the host until the operation is done, because later work on the current stream needs its
// result.
void NcclCommunicator::finish(Running& running) {
    const auto deadline = Clock::now() + place_.timeout;
    for (;;) {
        const cudaError_t state = cudaEventQuery(running.done);
        if (state == cudaSuccess) break;
        if (state != cudaErrorNotReady) C10_CUDA_CHECK(state);
        for (const Line* line : {&reductions_, channels_[0] ? &*channels_[0] : nullptr,
                                 channels_[1] ? &*channels_[1] : nullptr}) {
            ncclResult_t error = ncclSuccess;
            if (line == nullptr) continue;
            const ncclResult_t asked = ncclCommGetAsyncError(line->comm, &error);
            if (asked != ncclSuccess) lose(running.what, reason(asked));
            if (error != ncclSuccess && error != ncclInProgress) lose(running.what, reason(error));
        }
        if (Clock::now() > deadline) lose(running.what, "no answer in time");
        std::this_thread::sleep_for(kAsk);
    }
    C10_CUDA_CHECK(cudaEventDestroy(running.done));
    if (!running.given.is_same(running.on_device)) running.given.copy_(running.on_device);
}

void NcclCommunicator::send(const at::Tensor& tensor, int to, Channel channel) {
    while (!sent_.empty() && cudaEventQuery(sent_.front().done) == cudaSuccess) {
        C10_CUDA_CHECK(cudaEventDestroy(sent_.front().done));
        sent_.pop_front();
    }
    Line& here = line(channel);
    sent_.push_back(issue(here, "send", tensor, [&](const at::Tensor& x, cudaStream_t stream) {
        return ncclSend(x.const_data_ptr(), static_cast<std::size_t>(x.numel()), type_of(x), to,
                        here.comm, stream);
    }));
}

void NcclCommunicator::recv(at::Tensor& tensor, int from, Channel channel) {
    Line& here = line(channel);
    Running running = issue(here, "receive", tensor, [&](const at::Tensor& x, cudaStream_t stream) {
        return ncclRecv(x.data_ptr(), static_cast<std::size_t>(x.numel()), type_of(x), from,
                        here.comm, stream);
    });
    finish(running);
}

Communicator::Ticket NcclCommunicator::all_reduce(const at::Tensor& tensor) {
    ROLL_CHECK(tensor.is_contiguous());
    const Ticket ticket = issued_++;
    const auto call = [&](const at::Tensor& x, cudaStream_t stream) {
        return ncclAllReduce(x.const_data_ptr(), x.data_ptr(), static_cast<std::size_t>(x.numel()),
                             type_of(x), ncclSum, reductions_.comm, stream);
    };
    running_.emplace(ticket,
                     issue(reductions_, "all-reduce " + std::to_string(ticket), tensor, call));
    return ticket;
}

void NcclCommunicator::wait(Ticket ticket) {
    Running running = std::move(running_.extract(ticket).mapped());
    finish(running);
}

}  // namespace roll::train
