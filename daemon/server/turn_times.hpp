// How long rolld's turns take: what an operator looks at when its answers come late.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "common/json.hpp"

namespace roll::server {

// Durations, counted in buckets an eighth of a doubling wide, from a microsecond to over an hour.
class Durations {
  public:
    void add(std::chrono::nanoseconds took);
    // {count, p99_ms, longest_ms}: the 99th percentile is its bucket's upper end.
    Json json() const;

  private:
    std::array<std::uint64_t, 256> counts_{};
    std::uint64_t count_ = 0;
    std::chrono::nanoseconds longest_{0};
};

struct TurnTimes {
    Durations turns;                          // of the engine, without what the disk took
    Durations commits;                        // of a turn's events: written and synced
    std::chrono::nanoseconds last_commit{0};  // of the turn under way; 0: it had nothing to write
};

}  // namespace roll::server
