// Compares the schedules with figures from the literature, and tests what check() refuses.
#include "worker/plan/pipeline_schedule.hpp"

#include <iostream>

#include <gtest/gtest.h>

namespace roll::plan {
namespace {

using Counts = std::vector<int>;
// costs in the literature: the gradient is sent after the whole backward
constexpr Costs kWhole{1, 2, 0};

TEST(Schedule, OneForwardOneBackwardHasItsBubbleAndMemory) {
    const auto report = check(one_forward_one_backward(4, 8), kWhole).value();
    EXPECT_DOUBLE_EQ(report.bubble, 3.0 / 8);  // (pp - 1) / microbatches
    EXPECT_EQ(report.live_max, (Counts{4, 3, 2, 1}));
    EXPECT_DOUBLE_EQ(check(one_forward_one_backward(4, 8)).value().bubble,
                     2.0 / 8);  // less, because the gradient is sent before the weight half
}

TEST(Schedule, InterleavingDividesTheBubbleByTheChunks) {
    const auto two = check(interleaved(4, 2, 8).value(), kWhole).value();
    EXPECT_DOUBLE_EQ(two.bubble, 3.0 / 16);
    EXPECT_EQ(two.live_max, (Counts{11, 9, 7, 5}));
    EXPECT_EQ(check(interleaved(4, 4, 8).value()).value().live_max, (Counts{19, 17, 15, 13}));
    EXPECT_FALSE(interleaved(4, 2, 10));
}

TEST(Schedule, ZeroBubbleH1HasAThirdOfTheBubble) {
    const PipelineSchedule schedule = zero_bubble_h1(4, 8);
    const auto report = check(schedule).value();
    std::cout << to_string(schedule, report);
    EXPECT_DOUBLE_EQ(report.bubble, 1.0 / 8);
    EXPECT_EQ(report.live_max, (Counts{4, 4, 4, 4}));
}

TEST(Schedule, GpipeHoldsAllMicrobatches) {
    const auto report = check(gpipe(4, 1, 8), kWhole).value();
    EXPECT_DOUBLE_EQ(report.bubble, 3.0 / 8);
    EXPECT_EQ(report.live_max, (Counts{8, 8, 8, 8}));
    EXPECT_DOUBLE_EQ(check(gpipe(4, 2, 8), kWhole).value().bubble, 3.0 / 16);
}

TEST(Schedule, EveryGeneratedTableIsSound) {
    for (int pp = 1; pp <= 8; ++pp) {
        for (int microbatches = 1; microbatches <= 20; ++microbatches) {
            EXPECT_TRUE(check(one_forward_one_backward(pp, microbatches)));
            EXPECT_TRUE(check(zero_bubble_h1(pp, microbatches)));
            for (int vp = 1; vp <= 4 && microbatches % pp == 0; ++vp)
                EXPECT_TRUE(check(interleaved(pp, vp, microbatches).value()));
            for (int vp = 1; vp <= 4; ++vp) EXPECT_TRUE(check(gpipe(pp, vp, microbatches)));
        }
    }
}

void expect_refused(const PipelineSchedule& schedule, const std::string& why) {
    const auto report = check(schedule);
    ASSERT_FALSE(report);
    EXPECT_NE(report.error().message.find(why), std::string::npos) << report.error().message;
}

TEST(Check, RefusesLostAndDoubledWork) {
    PipelineSchedule schedule = one_forward_one_backward(2, 4);
    schedule.ranks[1].pop_back();
    expect_refused(schedule, "rank 1: work is missing");
    schedule = one_forward_one_backward(2, 4);
    schedule.ranks[0].push_back(schedule.ranks[0].back());
    expect_refused(schedule, "rank 0, W3: this operation is repeated or out of order");
}

TEST(Check, RefusesAWeightHalfBeforeItsInputHalf) {
    PipelineSchedule schedule = one_forward_one_backward(2, 4);
    std::swap(schedule.ranks[1][1], schedule.ranks[1][2]);
    expect_refused(schedule, "rank 1, W0: this operation is repeated or out of order");
}

TEST(Check, RefusesAReceiveOfAnothersMessage) {
    PipelineSchedule schedule = one_forward_one_backward(2, 4);
    // rank 0 sends F1 first, but rank 1 expects F0
    std::swap(schedule.ranks[0][0], schedule.ranks[0][1]);
    expect_refused(schedule, "rank 1, F0: would receive another");
}

TEST(Check, RefusesADeadlock) {
    // ranks: F0 F1 B0 W0 ... and F0 B0 W0 F1 ...
    PipelineSchedule schedule = one_forward_one_backward(2, 2);
    std::swap(schedule.ranks[0][1], schedule.ranks[0][2]);  // rank 0: F0 B0 F1 ...
    std::swap(schedule.ranks[1][1], schedule.ranks[1][3]);  // rank 1: F0 F1 W0 B0 ...
    std::swap(schedule.ranks[1][2], schedule.ranks[1][3]);  // rank 1: F0 F1 B0 W0 ...
    expect_refused(schedule, "rank 0, B0: deadlock");
}

}  // namespace
}  // namespace roll::plan
