// Resource use per user and account, maintained by apply().
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "common/spec/policy.hpp"
#include "common/time.hpp"

namespace roll::core {

struct Use {
    int slots = 0;  // slots held by running attempts
    int gpu_hundredths = 0;
    int jobs = 0;                 // jobs that have not ended
    std::int64_t gpu_ms = 0;      // GPUs x ms of ended attempts, each counted up to its time limit
    std::int64_t gpu_ms_due = 0;  // GPUs x time limit in ms of attempts that hold GPUs now
    std::int64_t decayed = 0;     // fair-share use as of `at`: weight x ms, decayed
    Time at{};
    friend bool operator==(const Use&, const Use&) = default;
};

using User = std::pair<std::string, std::string>;  // account ("": none), user

// Weight of a job in fair share: a GPU counts as kGpuWeight slots.
inline constexpr int kGpuWeight = 16;
std::int64_t weight(int slots, int gpu_hundredths);

// Returns fair-share use at `now`, running attempts included.
std::int64_t use_at(const Use& use, Time now, std::chrono::seconds half_life);

// Adds (`sign` = 1) or removes (-1) an attempt's resources.
void change(Use& use, const spec::Resources& resources, int sign, Time at,
            std::chrono::seconds half_life);

// Returns GPUs x milliseconds charged to an attempt that holds `resources` for `held`.
std::int64_t gpu_ms(const spec::Resources& resources, std::chrono::milliseconds held);

}  // namespace roll::core
