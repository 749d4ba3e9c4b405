#include "worker/plan/pipeline_choice.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace roll::plan {
namespace {

std::int64_t peak_of(const ScheduleReport& report) {
    return *std::ranges::max_element(report.peak_bytes);
}

// Returns the bubble of the schedule as text, or "deadlock".
std::string bubble_text(const PipelineSchedule& schedule, const std::vector<Costs>& costs) {
    const auto report = check(schedule, costs);
    return report ? fmt::format("{:.3g}", report->bubble) : std::string("deadlock");
}

// Returns true if Megatron accepts the group size. The last group must be as large as the others,
// or have at least pp micro-batches.
bool groups_fit(int pp, int microbatches, int group) {
    return microbatches % group == 0 || microbatches % group >= pp;
}

Result<PipelineSchedule> interleaved_for(int pp, int vp, int microbatches, int group,
                                         const std::vector<Costs>& costs) {
    if (group == 0) group = pp;
    if (group < pp)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("parallel.group is {}; allowed: at least pp {}", group, pp));
    PipelineSchedule schedule = interleaved(pp, vp, microbatches, group);
    if (groups_fit(pp, microbatches, group)) return schedule;
    const int fitting = (microbatches / group + 1) * group;
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format(
            "the last group of a replica's {2} micro-batches has {1}; allowed: {0}, as in the "
            "other groups, or at least pp {3}; set parallel.group, or change "
            "train.global_batch_size: with {5} micro-batches, the bubble is {6} instead of {4}",
            group, microbatches % group, microbatches, pp, bubble_text(schedule, costs), fitting,
            bubble_text(interleaved(pp, vp, fitting, group), costs)));
}

Result<PipelineSchedule> automatic(const spec::ParallelSpec& parallel, int microbatches,
                                   const std::vector<Costs>& costs) {
    const int pp = parallel.pp, vp = parallel.vpp;
    std::vector<PipelineSchedule> all;
    if (vp > 1 && parallel.group > 0) {
        ROLL_TRY(all.emplace_back(), interleaved_for(pp, vp, microbatches, parallel.group, costs));
    } else {
        for (PipelineSchedule& one : candidates(pp, vp, microbatches))
            if (one.placing == Placement::Loop) all.push_back(std::move(one));
    }
    if (all.empty()) return interleaved_for(pp, vp, microbatches, parallel.group, costs);
    if (const auto best = fastest(all, costs, parallel.activation_limit))
        return std::move(all[*best]);
    ROLL_TRY(ScheduleReport least, check(all.front(), costs));
    for (const PipelineSchedule& one : all) {
        ROLL_TRY(ScheduleReport report, check(one, costs));
        if (peak_of(report) < peak_of(least)) least = std::move(report);
    }
    return fail(ErrorCode::InvalidArgument,
                fmt::format("parallel.activation_limit is {} bytes, but the schedule with the "
                            "smallest memory holds {} bytes of activations on a rank; raise the "
                            "limit, or set a smaller train.micro_batch_size",
                            parallel.activation_limit, peak_of(least)));
}

}  // namespace

std::vector<PipelineSchedule> candidates(int pp, int vp, int microbatches) {
    if (vp == 1 || pp == 1) {
        if (vp > 1) return {gpipe(pp, vp, microbatches)};
        return {one_forward_one_backward(pp, microbatches), zero_bubble_h1(pp, microbatches)};
    }
    std::vector<PipelineSchedule> all;
    // try only a few group sizes: larger groups take more memory and are not faster
    constexpr std::size_t kGroups = 4;
    for (int group = pp; group <= microbatches && all.size() < kGroups; ++group)
        if (groups_fit(pp, microbatches, group))
            all.push_back(interleaved(pp, vp, microbatches, group));
    if (vp != 2) return all;
    all.push_back(zero_bubble_v(pp, microbatches));
    if (auto dual = dual_pipe_v(pp, microbatches)) all.push_back(std::move(*dual));
    return all;
}

std::optional<std::size_t> fastest(const std::vector<PipelineSchedule>& schedules,
                                   const std::vector<Costs>& costs, std::int64_t limit) {
    // If the ratio of two step times is at least this number, they count as equal: they differ only
    // by rounding.
    constexpr double kEqual = 1 - 1e-9;
    std::optional<std::size_t> best;
    double shortest = 0;
    for (std::size_t i = 0; i < schedules.size(); ++i) {
        const auto report = check(schedules[i], costs);
        if (!report || (limit > 0 && peak_of(*report) > limit)) continue;
        if (best && report->makespan >= shortest * kEqual) continue;
        best = i;
        shortest = report->makespan;
    }
    return best;
}

Result<PipelineSchedule> schedule_of(const spec::ParallelSpec& parallel, std::int64_t microbatches,
                                     const std::vector<Costs>& costs) {
    const int pp = parallel.pp, vp = parallel.vpp, m = static_cast<int>(microbatches);
    switch (parallel.schedule) {
        case spec::Schedule::Auto: return automatic(parallel, m, costs);
        case spec::Schedule::Interleaved: return interleaved_for(pp, vp, m, parallel.group, costs);
        case spec::Schedule::OneForwardOneBackward: return one_forward_one_backward(pp, m);
        case spec::Schedule::ZeroBubbleH1: return zero_bubble_h1(pp, m);
        case spec::Schedule::ZeroBubbleV: return zero_bubble_v(pp, m);
        case spec::Schedule::DualPipeV: return dual_pipe_v(pp, m);
        case spec::Schedule::Gpipe: break;
    }
    return gpipe(pp, vp, m);
}

}  // namespace roll::plan
