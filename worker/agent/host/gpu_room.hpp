// Checks, before a program starts, whether enough GPU memory is free. The driver releases the
// memory of an earlier process only some time after that process has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/agent/host/nvml.hpp"

namespace roll::agent {

// A GPU, and the largest number of bytes that may be in use on it when a program starts.
struct GpuRoom {
    std::string name;  // the GPU's name as in CUDA_VISIBLE_DEVICES
    std::int64_t most_used_bytes = 0;
    friend bool operator==(const GpuRoom&, const GpuRoom&) = default;
};

// A GPU whose memory in use exceeds GpuRoom::most_used_bytes before a program starts.
struct HeldGpu {
    GpuRoom room;
    std::int64_t used_bytes = 0;
    std::vector<GpuProcess> processes{};  // processes that use the GPU, as NVML reports them
};

// Returns the GPUs whose memory in use exceeds GpuRoom::most_used_bytes.
std::vector<HeldGpu> held_gpus(const std::vector<GpuRoom>& gpus);

// Returns a description such as "GPU 0 has 20480 MiB in use (512 MiB at most): process 4711
// (python3) 20000 MiB; GPU 1 ...".
std::string text_of(const std::vector<HeldGpu>& held);

}  // namespace roll::agent
