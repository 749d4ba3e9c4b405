// Resource use per user and account, maintained by apply().
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "common/spec/job/policy.hpp"
#include "common/time.hpp"

namespace roll::core {

struct Use {
    int slots = 0;  // slots that running attempts hold
    int gpu_hundredths = 0;
    int jobs = 0;  // jobs that have not ended
    // GPUs x milliseconds that the ended attempts are charged. An attempt is charged for the time
    // that it ran, but at most for its time limit.
    std::int64_t gpu_ms = 0;
    std::int64_t gpu_ms_due = 0;  // GPUs x time limit in ms of the attempts that hold GPUs now
    std::int64_t decayed = 0;     // fair-share use (weight x ms), decayed up to the time `at`
    Time at{};
    friend bool operator==(const Use&, const Use&) = default;
};

using User = std::pair<std::string, std::string>;  // account (may be empty) and user name

// In fair share, one GPU weighs as much as this number of slots.
inline constexpr int kGpuWeight = 16;
std::int64_t weight(int slots, int gpu_hundredths);

// Returns the fair-share use at `now`, including the use of running attempts.
std::int64_t use_at(const Use& use, Time now, std::chrono::seconds half_life);

// Adds an attempt's resources to `use` (`sign` = 1) or removes them (`sign` = -1).
void change(Use& use, const spec::Resources& resources, int sign, Time at,
            std::chrono::seconds half_life);

// Returns the GPUs x milliseconds that an attempt is charged for holding `resources` for the time
// `held`.
std::int64_t gpu_ms(const spec::Resources& resources, std::chrono::milliseconds held);

}  // namespace roll::core
