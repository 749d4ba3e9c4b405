// Durations of rolld's turns, for operators who see late answers.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "common/json.hpp"

namespace roll::server {

// A histogram of durations: 8 buckets per power of two, from a microsecond to over an hour.
class Durations {
  public:
    void add(std::chrono::nanoseconds took);
    // Returns {count, p99_ms, longest_ms}; p99_ms is the upper end of its bucket.
    Json json() const;

  private:
    std::array<std::uint64_t, 256> counts_{};
    std::uint64_t count_ = 0;
    std::chrono::nanoseconds longest_{0};
};

struct TurnTimes {
    Durations turns;    // engine time without disk
    Durations commits;  // write and sync of a turn's events
    // Commit time of the current turn; 0: nothing to write.
    std::chrono::nanoseconds last_commit{0};
};

}  // namespace roll::server
