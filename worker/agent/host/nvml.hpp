// Calls NVIDIA's management library (NVML), loaded at run time. All functions work without the
// library or a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace roll::agent {

// Returns the number of GPUs. Returns 0 without the library or a driver.
int count_gpus();

// Returns the CPUs near each GPU; a GPU's entry is empty if its CPUs are unknown. `names` are
// CUDA's names, as in CUDA_VISIBLE_DEVICES: indices, UUIDs or MIG instances.
std::vector<std::vector<int>> cpus_near_gpus(const std::vector<std::string>& names);

// Returns the bytes in use on each GPU or MIG instance; 0 if the use is unknown.
std::vector<std::int64_t> used_gpu_memory(const std::vector<std::string>& names);

// A process that uses a GPU. In a container, `pid` is the process id on the host.
struct GpuProcess {
    std::int64_t pid = 0;
    std::int64_t bytes = 0;  // GPU memory that the process uses; 0: unknown
    friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};
std::vector<GpuProcess> gpu_processes(const std::string& name);

// Returns the id of the NVLink domain that a GPU shares with GPUs of other nodes:
// "nvl-CLUSTER-CLIQUE". Returns an empty string if the GPU is in no such domain, or if the domain
// is unknown.
std::string nvlink_domain(const std::string& name);

// Returns a function that measures the recent utilization of each GPU in percent, -1 if unknown
// (e.g. for MIG instances). Returns an empty function without the library. The function keeps the
// library open, because opening it takes long. A call of the function may block if the driver
// hangs.
std::function<std::vector<int>()> gpu_meter(const std::vector<std::string>& names);

// Describes the fault of a GPU's memory: "has 2 uncorrected memory errors ...". Returns an empty
// string if the memory has no fault, or if its state is unknown.
std::string gpu_fault(const std::string& name);

}  // namespace roll::agent
