// Compares the schedules with figures from the literature, and simulates all of them.
#include <algorithm>
#include <iostream>

#include <gtest/gtest.h>

#include "worker/plan/pipeline_print.hpp"

namespace roll::plan {
namespace {

using Counts = std::vector<int>;
// costs in the literature: the gradient is sent after the whole backward
const std::vector<Costs> kWhole = {{1, 2, 0}};

// Returns the idle time of the step in units of a micro-batch's forward on one rank.
double idle_units(const PipelineSchedule& schedule, const std::vector<Costs>& costs = {}) {
    const ScheduleReport report = check(schedule, costs).value();
    return report.makespan * report.bubble / (1 + report.bubble) / schedule.vp;
}

// Returns the longest idle time of a rank between its first and its last op.
double idle_inside(const PipelineSchedule& schedule) {
    const ScheduleReport report = check(schedule).value();
    double longest = 0;
    for (int rank = 0; rank < schedule.pp; ++rank)
        longest = std::max(longest, report.ends[rank].back() - report.starts[rank].front() -
                                        static_cast<double>(schedule.ranks[rank].size()));
    return longest;
}

TEST(Schedule, OneForwardOneBackwardHasItsBubbleAndMemory) {
    const auto report = check(one_forward_one_backward(4, 8), kWhole).value();
    EXPECT_DOUBLE_EQ(report.bubble, 3.0 / 8);  // (pp - 1) / microbatches
    EXPECT_EQ(report.live_max, (Counts{4, 3, 2, 1}));
    EXPECT_DOUBLE_EQ(idle_units(one_forward_one_backward(4, 8), kWhole), 9);
    // less, because the gradient is sent before the weight half
    EXPECT_DOUBLE_EQ(idle_units(one_forward_one_backward(4, 8)), 6);
}

TEST(Schedule, InterleavingDividesTheBubbleByTheChunks) {
    EXPECT_DOUBLE_EQ(idle_units(interleaved(4, 2, 8), kWhole), 4.5);
    EXPECT_DOUBLE_EQ(idle_units(interleaved(4, 4, 8), kWhole), 2.25);
}

struct Published {
    int pp, microbatches, vp, group;
    Counts live_max;
    double bubble;
};

// A simulation of Megatron's schedule with F 1 and B 2
TEST(Schedule, InterleavingHasThePublishedMemoryAndBubble) {
    const Published rows[] = {{4, 8, 1, 4, {4, 3, 2, 1}, 0.375},
                              {4, 8, 2, 4, {11, 9, 7, 5}, 0.1875},
                              {4, 8, 4, 4, {19, 17, 15, 13}, 0.09375},
                              {8, 32, 2, 8, {23, 21, 19, 17, 15, 13, 11, 9}, 7.0 / 64},
                              {8, 32, 4, 8, {39, 37, 35, 33, 31, 29, 27, 25}, 7.0 / 128},
                              {2, 5, 2, 3, {6, 4}, 0.1},
                              {4, 8, 2, 8, {15, 13, 11, 9}, 0.1875},
                              {4, 10, 2, 4, {11, 9, 7, 5}, 0.95 / 3}};
    for (const Published& row : rows) {
        const PipelineSchedule schedule =
            row.vp == 1 ? one_forward_one_backward(row.pp, row.microbatches)
                        : interleaved(row.pp, row.vp, row.microbatches, row.group);
        const ScheduleReport report = check(schedule, kWhole).value();
        EXPECT_EQ(report.live_max, row.live_max);
        EXPECT_NEAR(report.bubble, row.bubble, 1e-12);
    }
}

// The order of forwards and backwards of Megatron's documentation, for any rank
TEST(Schedule, InterleavingVisitsTheChunksInMegatronsOrder) {
    const PipelineSchedule schedule = interleaved(2, 2, 5, 3);
    Counts microbatches, chunks, backward_chunks;
    for (const Op& op : schedule.ranks[0]) {
        if (op.kind == OpKind::BackwardInput) backward_chunks.push_back(op.chunk);
        if (op.kind != OpKind::Forward) continue;
        microbatches.push_back(op.microbatch);
        chunks.push_back(op.chunk);
    }
    EXPECT_EQ(microbatches, (Counts{0, 1, 2, 0, 1, 2, 3, 4, 3, 4}));
    EXPECT_EQ(chunks, (Counts{0, 0, 0, 1, 1, 1, 0, 0, 1, 1}));
    EXPECT_EQ(backward_chunks, (Counts{1, 1, 1, 0, 0, 0, 1, 1, 0, 0}));
}

// Returns how many forwards a rank runs before its first backward.
std::ptrdiff_t warmup_of(const std::vector<Op>& ops) {
    return std::ranges::find(ops, OpKind::BackwardInput, &Op::kind) - ops.begin();
}

TEST(Schedule, EveryRankWarmsUpAsLongAsMegatronSays) {
    for (int pp = 1; pp <= 8; ++pp) {
        for (int m = pp; m <= 32; ++m) {
            const PipelineSchedule one = one_forward_one_backward(pp, m);
            for (int rank = 0; rank < pp; ++rank)
                EXPECT_EQ(warmup_of(one.ranks[rank]), std::min(pp - rank, m));
            for (int vp = 2; vp <= 4; ++vp) {
                for (int group = pp; group <= m; ++group) {
                    const PipelineSchedule s = interleaved(pp, vp, m, group);
                    for (int rank = 0; rank < pp; ++rank)
                        EXPECT_EQ(warmup_of(s.ranks[rank]),
                                  std::min(m * vp, 2 * (pp - rank - 1) + (vp - 1) * group + 1));
                }
            }
        }
    }
}

TEST(Schedule, ZeroBubbleH1HasAThirdOfTheBubble) {
    const PipelineSchedule schedule = zero_bubble_h1(4, 8);
    const auto report = check(schedule).value();
    std::cout << table_text(schedule, report);
    EXPECT_DOUBLE_EQ(idle_units(schedule), 3);
    EXPECT_EQ(report.live_max, (Counts{4, 4, 4, 4}));
}

TEST(Schedule, ZeroBubbleVIsIdleOnlyAtTheEndsOfTheStep) {
    EXPECT_DOUBLE_EQ(idle_units(zero_bubble_v(4, 8)), 1.5);
    EXPECT_EQ(check(zero_bubble_v(4, 8))->live_max, (Counts{8, 8, 8, 8}));
    for (int pp = 1; pp <= 8; ++pp) {
        for (int m = 2 * pp; m <= 32; ++m) {
            EXPECT_DOUBLE_EQ(idle_inside(zero_bubble_v(pp, m)), 0) << pp << " " << m;
            // the activations of 1F1B's first rank: pp micro-batches of two chunks
            EXPECT_EQ(std::ranges::max(check(zero_bubble_v(pp, m))->live_max), 2 * pp);
        }
    }
}

TEST(Schedule, DualPipeVHoldsOneMicrobatchMoreThanZeroBubbleV) {
    EXPECT_DOUBLE_EQ(idle_units(dual_pipe_v(4, 8).value()), 1.5);
    EXPECT_EQ(check(dual_pipe_v(4, 8).value())->live_max, (Counts{9, 9, 9, 9}));
    EXPECT_FALSE(dual_pipe_v(4, 7));
}

TEST(Schedule, GpipeHoldsAllMicrobatches) {
    const auto report = check(gpipe(4, 1, 8), kWhole).value();
    EXPECT_DOUBLE_EQ(report.bubble, 3.0 / 8);
    EXPECT_EQ(report.live_max, (Counts{8, 8, 8, 8}));
    EXPECT_DOUBLE_EQ(check(gpipe(4, 2, 8), kWhole)->bubble, 3.0 / 16);
}

TEST(Schedule, VPlacesTheFirstAndTheLastStageOnOneRank) {
    EXPECT_EQ(home_of(Placement::V, 3, 0), (Home{0, 0}));
    EXPECT_EQ(home_of(Placement::V, 3, 3), (Home{2, 1}));
    EXPECT_EQ(home_of(Placement::V, 3, 5), (Home{0, 1}));
    EXPECT_EQ(home_of(Placement::Loop, 3, 5), (Home{2, 1}));
    for (const Placement placing : {Placement::Loop, Placement::V})
        for (int stage = 0; stage < 12; ++stage)
            EXPECT_EQ(stage_of(placing, 3, home_of(placing, 3, stage)), stage);
}

TEST(Schedule, EveryGeneratedTableEnds) {
    for (int pp = 1; pp <= 8; ++pp) {
        for (int m = 1; m <= 32; ++m) {
            EXPECT_TRUE(check(one_forward_one_backward(pp, m)));
            EXPECT_TRUE(check(zero_bubble_h1(pp, m)));
            EXPECT_TRUE(check(zero_bubble_v(pp, m)));
            if (m >= 2 * pp) {
                EXPECT_TRUE(check(dual_pipe_v(pp, m).value()));
            }
            for (int vp = 1; vp <= 4; ++vp) {
                EXPECT_TRUE(check(gpipe(pp, vp, m)));
                for (const int group : {pp, pp + 1, m / 2, m})
                    if (group >= pp && group <= m && (m % group == 0 || m % group >= pp)) {
                        EXPECT_TRUE(check(interleaved(pp, vp, m, group))) << pp << m << vp << group;
                    }
            }
        }
    }
}

}  // namespace
}  // namespace roll::plan
