// Resources that the processes of an attempt used, as measured by the workers. A member of an
// attempt is the part of the attempt on one worker.
#pragma once

#include <cstdint>

namespace roll {

struct Usage {
    std::int64_t cpu_ms = 0;       // processor time of all members
    std::int64_t memory_peak = 0;  // highest memory use on one node, in bytes
    std::int64_t wall_ms = 0;      // longest time that a member ran
    // GPUs x time, summed over all members; a share of a GPU counts as a share
    std::int64_t gpu_ms = 0;
    friend bool operator==(const Usage&, const Usage&) = default;
};

}  // namespace roll
