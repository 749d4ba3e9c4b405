// Resources that the processes of an attempt used, as measured by the workers. A member of an
// attempt is the part of the attempt on one worker.
#pragma once

#include <algorithm>
#include <cstdint>

namespace roll {

struct Usage {
    std::int64_t cpu_ms = 0;       // processor time of all members
    std::int64_t memory_peak = 0;  // highest memory use on one node, in bytes
    std::int64_t wall_ms = 0;      // longest time that a member ran
    // GPUs x time, summed over all members; a share of a GPU counts as a share
    std::int64_t gpu_ms = 0;
    // Bytes that all members read from volumes and wrote to files. A read that the page cache
    // serves does not count.
    std::int64_t disk_read = 0;
    std::int64_t disk_written = 0;
    friend bool operator==(const Usage&, const Usage&) = default;
};

// Largest values of `disk_read` and `disk_written` of a member, 1 PiB. A larger count is reported
// as this value, so that sums over the members do not overflow.
constexpr std::int64_t kDiskBytesMax = std::int64_t{1} << 50;

// Returns the smallest of the usage's values. The usage is invalid if this value is negative.
inline std::int64_t lowest(const Usage& usage) {
    return std::min({usage.cpu_ms, usage.memory_peak, usage.wall_ms, usage.gpu_ms, usage.disk_read,
                     usage.disk_written});
}

}  // namespace roll
