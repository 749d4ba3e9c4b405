#include <cmath>

#include "worker/plan/pipeline_schedule.hpp"

namespace roll::plan {

std::string to_string(const Op& op) {
    return "FBW"[static_cast<int>(op.kind)] + std::to_string(op.microbatch) +
           std::string(static_cast<std::size_t>(op.chunk), '\'');
}

std::string to_string(const PipelineSchedule& schedule, const ScheduleReport& report) {
    constexpr std::size_t kCell = 4;
    std::string text;
    for (int rank = 0; rank < schedule.pp; ++rank) {
        std::string line = std::to_string(rank) + " |";
        const std::size_t origin = line.size();
        for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
            const auto start = static_cast<std::size_t>(std::lround(report.starts[rank][i]));
            line.resize(origin + start * kCell, ' ');
            line += to_string(schedule.ranks[rank][i]);
            line.resize(std::max(line.size(), origin + (start + 1) * kCell), ' ');
        }
        text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    return text;
}

}  // namespace roll::plan
