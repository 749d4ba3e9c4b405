#include "worker/train/comm/backend.hpp"

#include <cstring>

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include "worker/train/ops/cuda/nccl_communicator.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// Returns this rank's GPU. CUDA_VISIBLE_DEVICES lists all of the job's GPUs on the node, and each
// rank takes one of them.
at::Device take_device(const protocol::Launch& launch, int rank) {
    const int device = rank % launch.ranks_per_node;
    int count = 0;
    const cudaError_t found = cudaGetDeviceCount(&count);
    if (found != cudaSuccess || count <= device) {
        const std::string why = found != cudaSuccess ? cudaGetErrorString(found)
                                                     : "this job sees " + std::to_string(count);
        throw RankFailure(protocol::kExitUnfit,
                          "cannot use GPU " + std::to_string(device) + ": " + why +
                              "; run the job on a node that offers GPUs, or submit the job with "
                              "resources.slots_per_node");
    }
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
    return {at::kCUDA, static_cast<c10::DeviceIndex>(device)};
}

std::unique_ptr<Communicator> group_of(GlooFabric& fabric, const std::string& name,
                                       const std::vector<int>& ranks) {
    return std::make_unique<NcclCommunicator>(fabric.place(name, ranks));
}

// Returns the memory of the tensors. Does not count memory that the allocator only reserves. The
// plan of a job counts in the same way, so the two numbers can be compared.
DeviceMemory memory_of(at::Device device) {
    namespace allocator = c10::cuda::CUDACachingAllocator;
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const c10::CachingAllocator::Stat bytes =
        allocator::getDeviceStats(device.index()).allocated_bytes[kAll];
    return {bytes.current, bytes.peak};
}

// Returns zeros in pinned host memory, which the GPU reads and writes over the bus.
at::Tensor mapped_zeros(std::int64_t size, const at::TensorOptions& options) {
    if (size == 0) return at::zeros({0}, options);
    const std::size_t bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
    void *host = nullptr, *on_device = nullptr;
    if (cudaHostAlloc(&host, bytes, cudaHostAllocMapped) != cudaSuccess)
        throw OutOfMemory(bytes, "the allocation of pinned host memory");
    std::memset(host, 0, bytes);
    if (cudaHostGetDevicePointer(&on_device, host, 0) != cudaSuccess) {
        cudaFreeHost(host);
        throw OutOfMemory(bytes, "the mapping of pinned host memory");
    }
    const auto release = [host](void*) { cudaFreeHost(host); };
    return at::from_blob(on_device, {size}, release, options, options.device());
}

}  // namespace

Backend take_backend(const protocol::Launch& launch, int rank) {
    const at::Device device = take_device(launch, rank);
    return {device, group_of, [device] { return memory_of(device); }, mapped_zeros};
}

}  // namespace roll::train
