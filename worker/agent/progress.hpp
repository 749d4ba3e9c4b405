// Whether the ranks of an attempt still get on, from the steps that they report. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/agent/lease.hpp"

namespace roll::agent {

struct RankProgress {
    std::int64_t step = 0;
    std::int64_t steps = 0;       // of the job
    std::int64_t own_ms = 0;      // of a step, waiting for others not counted
    std::optional<Instant> at{};  // of the newest report
    Millis longest{};             // between two reports
};

// A rank says that it has done this step.
void note_step(RankProgress& rank, std::int64_t step, std::int64_t steps, std::int64_t own_ms,
               Instant now);

// How long these ranks may take for a step. `declared`: the job's own bound, 0: never, -1: ten
// times the longest that there was and five minutes. None: there is no bound, or the last step is
// done.
std::optional<Millis> step_bound(const std::vector<RankProgress>& ranks, Millis declared);

// Why they hang, one sentence; empty: they do not, or it cannot be told.
std::string hang_reason(const std::vector<RankProgress>& ranks, Millis declared, Instant now);

}  // namespace roll::agent
