// Statistics of a step's phases over all ranks (comm/phase_clock.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include "common/json.hpp"
#include "worker/train/comm/phase_clock.hpp"

namespace roll::train {

struct PhaseReport {
    double wall = 0;                  // duration of the step on the slowest rank, in seconds
    PhaseClock::Times max{}, mean{};  // maximum and mean of each phase over the ranks, in seconds
};

// Computes the statistics from the times of all ranks, [ranks, kPhases], doubles on the CPU.
PhaseReport phase_report(const at::Tensor& times_RP);

// Adds the keys `wall_s` and `phases` to a row; `phases` has the maximum and the mean of each
// phase.
void put_phases(OrderedJson& row, const PhaseReport& report);

}  // namespace roll::train
