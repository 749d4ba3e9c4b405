// Whether the ranks of an attempt still get on, from the steps that they report. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

bool has_stepped(const std::vector<RankProgress>& ranks);  // one of them, in this attempt

// How long ranks may show nothing.
struct HangRule {
    Millis step{};   // between two steps; 0: for ever, -1: ten times the longest, and five minutes
    Millis start{};  // before the first step, and where the longest is not known yet; 0: for ever
};

// `hang_first_step` of a job's document; 30 minutes where it says nothing.
Millis start_bound(std::string_view document);

// How long these ranks may take for what they do now. None: there is no bound, or the last step is
// done.
std::optional<Millis> step_bound(const std::vector<RankProgress>& ranks, const HangRule& rule);

// Why they hang, one sentence; empty: they do not, or it cannot be told. `alive`: when one of them
// last said anything new, be it no step.
std::string hang_reason(const std::vector<RankProgress>& ranks, const HangRule& rule, Instant alive,
                        Instant now);

}  // namespace roll::agent
