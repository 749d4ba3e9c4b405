// The pace of a run: the durations of its steps, and the times of its reports.
#pragma once

#include <chrono>

#include "worker/train/comm/phase_clock.hpp"

namespace roll::train {

struct Pace {
    using Clock = std::chrono::steady_clock;
    Clock::time_point progress_due{};  // time of the next progress report
    Clock::time_point told{};          // time of the last report of a step
    double step_seconds = 0;           // smoothed duration of a step
    // smoothed duration of a step, minus the time spent waiting for other ranks
    double own_seconds = 0;
    PhaseClock::Times times{};  // this rank's times of the latest step (numbers_at_end())
    double peak_flops = 0;      // peak FLOP/s, summed over all ranks; 0 until measured
    bool memory_told = false;   // true: the memory of a step was reported
    // true: a step was faster than the measured peak allows; set only on rank 0
    bool peak_beaten = false;
};

}  // namespace roll::train
