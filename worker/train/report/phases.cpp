#include "worker/train/report/phases.hpp"

#include <algorithm>

#include <ATen/core/Tensor.h>

namespace roll::train {

PhaseReport phase_report(const at::Tensor& times_RP) {
    PhaseReport report;
    const auto ranks = times_RP.size(0);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const auto* const times = times_RP.const_data_ptr<double>() + rank * times_RP.stride(0);
        double wall = 0;
        for (std::size_t phase = 0; phase < kPhases; ++phase) {
            wall += times[phase];
            report.max[phase] = std::max(report.max[phase], times[phase]);
            report.mean[phase] += times[phase] / static_cast<double>(ranks);
        }
        report.wall = std::max(report.wall, wall);
    }
    return report;
}

void put_phases(OrderedJson& row, const PhaseReport& report) {
    row["wall_s"] = report.wall;
    for (std::size_t i = 0; i < kPhases; ++i)
        row["phases"][kPhaseNames[i]] = {{"max", report.max[i]}, {"mean", report.mean[i]}};
}

}  // namespace roll::train
