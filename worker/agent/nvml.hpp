// NVIDIA's management library, opened at run time: nothing here needs it, or a GPU, to be there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace roll::agent {

// 0 without it, without a driver or without GPUs.
int count_gpus();

// The CPUs close to each of these GPUs, which CUDA_VISIBLE_DEVICES names so: indices, UUIDs, MIG
// instances. Empty where it cannot be told.
std::vector<std::vector<int>> cpus_near_gpus(const std::vector<std::string>& names);

// Bytes in use on each of these GPUs or MIG instances; 0 where it cannot be told.
std::vector<std::int64_t> used_gpu_memory(const std::vector<std::string>& names);

// Who computes on a GPU; none where it cannot be told. Of a container's GPU the numbers are those
// of the machine.
struct GpuProcess {
    std::int64_t pid = 0;
    std::int64_t bytes = 0;  // 0: not told
    friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};
std::vector<GpuProcess> gpu_processes(const std::string& name);

// The NVLink domain that a GPU shares with those of other nodes, "nvl-CLUSTER-CLIQUE" by
// the fabric's numbers; empty: none, or it cannot be told.
std::string nvlink_domain(const std::string& name);

// Says how busy each of these GPUs was in its last moments, in percent, -1 where it cannot be told:
// a MIG instance, say. Keeps the library open, since to open it takes long; empty where there is
// none. A call may take as long as a driver that hangs.
std::function<std::vector<int>()> gpu_meter(const std::vector<std::string>& names);

// What is wrong with a GPU's memory, "has 2 uncorrected memory errors ..."; empty: nothing, or it
// cannot be told.
std::string gpu_fault(const std::string& name);

}  // namespace roll::agent
