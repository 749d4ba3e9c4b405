// Detects ranks that make no progress, from the steps that they report. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/agent/core/lease.hpp"

namespace roll::agent {

struct RankProgress {
    std::int64_t step = 0;
    std::int64_t steps = 0;  // total number of steps of the job
    // time of the newest step in ms, without the time of waiting for other ranks
    std::int64_t own_ms = 0;
    std::optional<Instant> at{};  // time of the newest report of a step
    Millis longest{};             // longest time between two reports of steps
};

// Records a rank's report of a completed step.
void note_step(RankProgress& rank, std::int64_t step, std::int64_t steps, std::int64_t own_ms,
               Instant now);

// Returns whether at least one rank has completed a step in this attempt.
bool has_stepped(const std::vector<RankProgress>& ranks);

// Times without progress after which ranks count as hung.
struct HangRule {
    // Longest time between two steps. 0: no limit; -1: 5 minutes plus 10 times the longest step
    Millis step{};
    // Longest time before the first step. 0: no limit. If `step` is -1, this limit also applies
    // until the longest step is known.
    Millis start{};
};

// Returns the time limit `hang_first_step` of a job's document: 30 minutes if unset, 0 for no
// limit.
Millis start_bound(std::string_view document);

// Returns the time limit for the ranks' current work; nullopt if there is no limit or the last
// step is done.
std::optional<Millis> step_bound(const std::vector<RankProgress>& ranks, const HangRule& rule);

// Returns one sentence that says why the ranks count as hung; empty if they do not. `alive`: when a
// rank last reported activity other than a step. Such activity counts only until the first step.
std::string hang_reason(const std::vector<RankProgress>& ranks, const HangRule& rule, Instant alive,
                        Instant now);

// Returns the text about skipped training in a program's report, such as "2 of 300 steps were
// skipped"; empty if the report says nothing about skipped training.
std::string skipped_text(const std::string& report);

}  // namespace roll::agent
