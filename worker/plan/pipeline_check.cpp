#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "worker/plan/pipeline_schedule.hpp"

namespace roll::plan {
namespace {

tl::unexpected<Error> wrong(int rank, const Op& op, const std::string& what) {
    return fail(ErrorCode::InvalidArgument,
                "rank " + std::to_string(rank) + ", " + to_string(op) + ": " + what);
}

// Checks the ops of one rank: each occurs once, with forward before backward-input before
// backward-weight.
std::optional<Error> check_rank(const PipelineSchedule& s, int rank) {
    std::map<std::tuple<int, int>, int> done;  // by (chunk, micro-batch): number of ops done
    for (const Op& op : s.ranks[rank]) {
        if (op.chunk < 0 || op.chunk >= s.vp || op.microbatch < 0 ||
            op.microbatch >= s.microbatches)
            return wrong(rank, op, "this chunk or microbatch does not exist").value();
        if (done[{op.chunk, op.microbatch}]++ != static_cast<int>(op.kind))
            return wrong(rank, op, "this operation is repeated or out of order").value();
    }
    const bool all =
        std::all_of(done.begin(), done.end(), [](auto& entry) { return entry.second == 3; });
    if (all && std::ssize(done) == s.vp * s.microbatches) return std::nullopt;
    return Error{ErrorCode::InvalidArgument, "rank " + std::to_string(rank) + ": work is missing"};
}

// Simulates the ranks' clocks and the messages between them.
class Simulation {
  public:
    Simulation(const PipelineSchedule& schedule, const Costs& costs)
        : s_(schedule),
          costs_{costs.forward, costs.backward_input, costs.backward_weight},
          next_(schedule.pp),
          live_(schedule.pp),
          clock_(schedule.pp) {
        report_.live_max.resize(s_.pp);
        report_.starts.resize(s_.pp);
    }

    Result<ScheduleReport> run() {
        for (bool moved = true; std::exchange(moved, false);) {
            for (int rank = 0; rank < s_.pp; ++rank) {
                while (next_[rank] < std::ssize(s_.ranks[rank])) {
                    ROLL_TRY(const bool stepped, step(rank, s_.ranks[rank][next_[rank]]));
                    if (!stepped) break;
                    moved = true;
                }
            }
        }
        for (int rank = 0; rank < s_.pp; ++rank) {
            if (next_[rank] < std::ssize(s_.ranks[rank]))
                return wrong(rank, s_.ranks[rank][next_[rank]],
                             "deadlock: the input of this operation never arrives");
        }
        const double ideal = s_.vp * s_.microbatches * (costs_[0] + costs_[1] + costs_[2]);
        report_.makespan = *std::max_element(clock_.begin(), clock_.end());
        report_.bubble = report_.makespan / ideal - 1;
        return std::move(report_);
    }

  private:
    struct Message {
        int stage;  // pipeline stage of the sender
        int microbatch;
        double time;
    };

    // Runs `op` and returns true. Returns false if its input has not arrived. Fails if the first
    // message in its channel is that of another op.
    Result<bool> step(int rank, const Op& op) {
        const int stage = op.chunk * s_.pp + rank, stages = s_.pp * s_.vp;
        const int towards = op.kind == OpKind::Forward ? 1 : -1;
        const int from = stage - towards, to = stage + towards;
        const bool speaks = op.kind != OpKind::BackwardWeight;
        if (speaks && from >= 0 && from < stages) {
            std::deque<Message>& channel = channels_[{from % s_.pp, rank, towards}];
            if (channel.empty()) return false;
            if (channel.front().stage != from || channel.front().microbatch != op.microbatch)
                return wrong(rank, op, "would receive another microbatch's message");
            clock_[rank] = std::max(clock_[rank], channel.front().time);
            channel.pop_front();
        }
        report_.starts[rank].push_back(clock_[rank]);
        clock_[rank] += costs_[static_cast<int>(op.kind)];
        if (speaks && to >= 0 && to < stages)
            channels_[{rank, to % s_.pp, towards}].push_back({stage, op.microbatch, clock_[rank]});
        live_[rank] += op.kind == OpKind::Forward ? 1 : op.kind == OpKind::BackwardWeight ? -1 : 0;
        report_.live_max[rank] = std::max(report_.live_max[rank], live_[rank]);
        ++next_[rank];
        return true;
    }

    const PipelineSchedule& s_;
    const std::array<double, 3> costs_;
    std::vector<int> next_, live_;
    std::vector<double> clock_;
    std::map<std::tuple<int, int, int>, std::deque<Message>> channels_;  // key: from, to, direction
    ScheduleReport report_;
};

}  // namespace

Result<ScheduleReport> check(const PipelineSchedule& schedule, const Costs& costs) {
    if (std::ssize(schedule.ranks) != schedule.pp)
        return fail(ErrorCode::InvalidArgument, "the table must have a row for each of pp ranks");
    for (int rank = 0; rank < schedule.pp; ++rank) {
        if (auto error = check_rank(schedule, rank)) return tl::unexpected(std::move(*error));
    }
    return Simulation(schedule, costs).run();
}

}  // namespace roll::plan
