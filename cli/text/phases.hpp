// Adds up how training steps spent their time, from the `phases` of metrics.jsonl.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/json.hpp"

namespace roll::cli {

// The time of one phase in seconds, summed over the steps.
struct PhaseTime {
    std::string name;
    double mean = 0;     // mean over the ranks
    double longest = 0;  // time of the slowest rank of each step
};

struct PhaseTimes {
    int steps = 0;
    double wall = 0;  // seconds of all steps
    std::vector<PhaseTime> phases{};
};

// Adds a row of metrics. Ignores a row without phases. Also ignores the first step of the job. This
// step takes longer, because the program then uses its memory for the first time.
void add_step(PhaseTimes& times, const Json& row);

// Returns the phases that took time, the longest first.
std::vector<PhaseTime> longest_first(const PhaseTimes& times);

// Returns the share of each phase in one line: "forward 31 %, backward 58 %, optimizer 11 %".
// Leaves out phases below 1 %, and phases for which `width` columns have no room. Returns an empty
// text if there are no steps.
std::string phase_shares(const PhaseTimes& times, std::size_t width);

}  // namespace roll::cli
