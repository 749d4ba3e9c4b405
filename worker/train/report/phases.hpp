// The phases of a step over all ranks (comm/phase_clock.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include "common/json.hpp"
#include "worker/train/comm/phase_clock.hpp"

namespace roll::train {

struct PhaseReport {
    double wall = 0;                  // the longest time of a rank, in seconds
    PhaseClock::Times max{}, mean{};  // over the ranks
};

// Reduces the times of all ranks, doubles of sizes [ranks, kPhases] on the CPU.
PhaseReport phase_report(const at::Tensor& times_RP);

// Adds `wall_s`, and `phases` with the maximum and the mean of each phase.
void put_phases(OrderedJson& row, const PhaseReport& report);

}  // namespace roll::train
