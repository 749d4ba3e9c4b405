// Measures how long rolld's turns and the start of jobs take, for operators who see late answers.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/json.hpp"

namespace roll::server {

// A histogram of durations. It has 8 buckets per power of two, from a microsecond to over an hour.
class Durations {
  public:
    void add(std::chrono::nanoseconds took);
    // Returns {count, seconds, p99_ms, longest_ms, recent_longest_ms}: the number and the sum of
    // the durations, the upper end of the 99th percentile's bucket, the longest duration, and the
    // longest of the last kRecent durations.
    Json json() const;

  private:
    static constexpr std::size_t kRecent = 100;
    std::array<std::uint64_t, 256> counts_{};
    std::uint64_t count_ = 0;
    std::chrono::nanoseconds sum_{0};
    std::chrono::nanoseconds longest_{0};
    std::array<std::chrono::nanoseconds, kRecent> recent_{};  // ring buffer of the newest durations
};

// A histogram of durations with the limits that Prometheus shows, from a millisecond to a day.
class Latencies {
  public:
    static constexpr std::array<std::int64_t, 18> kLimitsMs = {
        1,    2,     5,     10,     20,     50,      100,       200,       500,
        1000, 2'000, 5'000, 10'000, 60'000, 300'000, 1'800'000, 7'200'000, 86'400'000};

    // Adds a duration. A negative duration, after the wall clock was set back, counts as 0.
    void add(std::chrono::milliseconds took);
    // Returns {count, seconds, buckets: [{le, count}]}: the number and the sum of the durations,
    // and the number of durations of at most `le` seconds each.
    Json json() const;

  private:
    // counts_[i]: number of durations that are at most kLimitsMs[i] and above kLimitsMs[i - 1].
    // Durations above all limits are not counted here.
    std::array<std::uint64_t, kLimitsMs.size()> counts_{};
    std::uint64_t count_ = 0;
    std::chrono::milliseconds sum_{0};
};

struct TurnTimes {
    Durations turns;           // time in the engine, without the commit
    Durations commits;         // time to write and sync the events of a turn
    Latencies dispatches;      // time from when a job could run until its start order was sent
    std::uint64_t fenced = 0;  // number of orders to kill a fenced (no longer current) attempt
    // True while a turn writes and syncs its events. The watchdog's thread reads it.
    std::atomic<bool> is_writing{false};
    // Time of the current turn's commit; 0 if the turn had nothing to write.
    std::chrono::nanoseconds last_commit{0};
};

}  // namespace roll::server
