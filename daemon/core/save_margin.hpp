// How long a job that trains takes to save, learned from its checkpoints: it is told to stop so
// long before it must be gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "common/spec/job.hpp"

namespace roll::core {

inline constexpr std::size_t kSavesKept = 200;
inline constexpr auto kSaveSlack = std::chrono::seconds(60);

// The 99th percentile (nearest rank) of what its newest saves took, and kSaveSlack; 0: it has
// saved nothing yet.
std::chrono::milliseconds save_margin(const std::vector<std::int64_t>& save_ms);

// How long an attempt with this time limit may run before it is told to stop: that less the margin,
// which takes a quarter of it at most. 0: it has no limit.
std::chrono::milliseconds run_limit(std::chrono::milliseconds limit,
                                    const std::vector<std::int64_t>& save_ms);

}  // namespace roll::core
