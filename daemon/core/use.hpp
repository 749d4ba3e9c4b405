// Who uses how much: kept by apply() for each user of each account.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "common/spec/policy.hpp"
#include "common/time.hpp"

namespace roll::core {

struct Use {
    int slots = 0;  // held by attempts now
    int gpu_hundredths = 0;
    int jobs = 0;                 // not over
    std::int64_t gpu_ms = 0;      // GPUs x time of ended attempts, each at most its limit
    std::int64_t gpu_ms_due = 0;  // the limits of those that hold GPUs now
    std::int64_t decayed = 0;     // weight x ms, as at `at`: fair share
    Time at{};
    friend bool operator==(const Use&, const Use&) = default;
};

using User = std::pair<std::string, std::string>;  // account ("": none), user

// What a job of this size weighs in fair share: a GPU as much as kGpuWeight slots.
inline constexpr int kGpuWeight = 16;
std::int64_t weight(int slots, int gpu_hundredths);

// Fair-share use now, what runs included.
std::int64_t use_at(const Use& use, Time now, std::chrono::seconds half_life);

// An attempt takes (sign 1) or leaves (-1) this much.
void change(Use& use, const spec::Resources& resources, int sign, Time at,
            std::chrono::seconds half_life);

// GPUs x milliseconds that an attempt may use; that it counts as if it held them so long.
std::int64_t gpu_ms(const spec::Resources& resources, std::chrono::milliseconds held);

}  // namespace roll::core
