// Predicts when the jobs at the head of the queue start.
#pragma once

#include <optional>
#include <vector>

#include "daemon/core/state/event.hpp"

namespace roll::core {

// `at` is the time at which the job starts; nullopt if it is unknown.
struct PredictedStart {
    JobId job;
    std::optional<Time> at;
};

// Returns the first ready jobs in the order of the queue, at most kPredictedMax and fewer on large
// clusters. The prediction assumes that jobs start in this order, that every job uses its whole
// time limit, and that no job is added. Backfill may start a job earlier than predicted. The time
// is unknown if a quota blocks the job or no worker could hold it. The time is also unknown if the
// job, or an earlier job in the queue, waits for an attempt without a time limit.
inline constexpr std::size_t kPredictedMax = 100;
std::vector<PredictedStart> predicted_starts(const State& state, Time now);

}  // namespace roll::core
