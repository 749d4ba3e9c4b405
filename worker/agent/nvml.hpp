// NVIDIA's management library, opened at run time: nothing here needs it, or a GPU, to be there.
#pragma once

#include <cstdint>
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

}  // namespace roll::agent
