// Resources that the processes of an attempt used, as measured by the workers.
#pragma once

#include <cstdint>

namespace roll {

struct Usage {
    std::int64_t cpu_ms = 0;       // processor time of all members
    std::int64_t memory_peak = 0;  // bytes, on the node where it was highest
    std::int64_t wall_ms = 0;      // longest time that a member ran
    std::int64_t gpu_ms = 0;       // GPUs x time of all members; a share of a GPU counts as such
    friend bool operator==(const Usage&, const Usage&) = default;
};

}  // namespace roll
