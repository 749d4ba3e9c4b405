// Estimates from past checkpoints how long a training job takes to save. If a job must end by a
// certain time, rolld stops the job earlier by this estimate.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "common/spec/job/job.hpp"

namespace roll::core {

inline constexpr std::size_t kSavesKept = 200;
inline constexpr auto kSaveSlack = std::chrono::seconds(60);

// Returns kSaveSlack plus the 99th percentile (nearest rank) of `save_ms`, the job's newest save
// times. Returns 0 before the first save.
std::chrono::milliseconds save_margin(const std::vector<std::int64_t>& save_ms);

// Returns how long an attempt with the time limit `limit` runs before rolld stops it: the limit
// minus the save margin, but at least three quarters of the limit. Returns 0 if `limit` is 0 (no
// limit).
std::chrono::milliseconds run_limit(std::chrono::milliseconds limit,
                                    const std::vector<std::int64_t>& save_ms);

}  // namespace roll::core
