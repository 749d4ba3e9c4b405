// Measures how long rolld's turns take, for operators who see late answers.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "common/json.hpp"

namespace roll::server {

// A histogram of durations. It has 8 buckets per power of two, from a microsecond to over an hour.
class Durations {
  public:
    void add(std::chrono::nanoseconds took);
    // Returns {count, p99_ms, longest_ms}; p99_ms is the upper end of the 99th percentile's bucket.
    Json json() const;

  private:
    std::array<std::uint64_t, 256> counts_{};
    std::uint64_t count_ = 0;
    std::chrono::nanoseconds longest_{0};
};

struct TurnTimes {
    Durations turns;    // time in the engine, without the commit
    Durations commits;  // time to write and sync the events of a turn
    // Time of the current turn's commit; 0 if the turn had nothing to write.
    std::chrono::nanoseconds last_commit{0};
};

}  // namespace roll::server
