// Whether GPUs are free for a program to start on: what an earlier process held is given back some
// time after its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/agent/guard.hpp"
#include "worker/agent/nvml.hpp"

namespace roll::agent {

// A GPU that is not: more is in use than may be.
struct HeldGpu {
    GpuRoom room;
    std::int64_t used_bytes = 0;
    std::vector<GpuProcess> processes{};  // those that NVML tells of
};

// Of these, the ones that are not free now.
std::vector<HeldGpu> held_gpus(const std::vector<GpuRoom>& gpus);

// "GPU 0 has 20480 MiB in use (512 MiB at most): process 4711 (python3) 20000 MiB; GPU 1 ...".
std::string text_of(const std::vector<HeldGpu>& held);

}  // namespace roll::agent
