// The memory of a rank by category: measured at the end of a step, and as the plan computed it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/json.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/pipeline/train_step.hpp"
#include "worker/train/process/memory.hpp"

namespace roll::train {

// Bytes on one rank at the peak. `other` is the part of the peak that no other category explains:
// the program and its libraries, the data, and gaps of the allocator. All categories add up to
// `peak`. `other` is negative if the kernel has not yet given the process the memory of all other
// categories.
struct RankMemory {
    std::int64_t peak = 0;
    std::int64_t weights = 0;
    std::int64_t main_weights = 0;
    std::int64_t gradients = 0;
    std::int64_t moments = 0;
    std::int64_t activations = 0;  // includes temporary values of the step (the plan's workspace)
    std::int64_t communication = 0;
    std::int64_t other = 0;
    std::int64_t offloaded = 0;  // optimizer state outside the device's memory; not in `peak`
    std::int64_t free = 0;       // memory that the rank's node or GPU could still give; 0: unknown
};

// Measures this rank's memory after a step. `before`: tensors_now() before the step. `gpu`: memory
// of the rank's GPU; nullopt: the rank trains on a CPU.
RankMemory measured_memory(TrainStep& step, const TensorBytes& before,
                           const std::optional<DeviceMemory>& gpu);

// Convert to numbers that ranks can send to each other.
at::Tensor to_tensor(const RankMemory& memory);
std::vector<RankMemory> memories_of(const at::Tensor& all);

// Returns the content of OUTPUT/memory.json: the memory of all ranks. `planned` has the memory of
// each pipeline stage, and `stages` the stage of each rank.
OrderedJson memory_json(std::int64_t step, const std::vector<RankMemory>& ranks,
                        const std::vector<plan::MemoryBytes>& planned,
                        const std::vector<int>& stages);

// Returns one line for the log, about the rank with the highest peak.
std::string memory_line(std::int64_t step, const std::vector<RankMemory>& ranks,
                        const std::vector<plan::MemoryBytes>& planned,
                        const std::vector<int>& stages);

}  // namespace roll::train
