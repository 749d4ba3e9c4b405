// Tests which schedule a job gets.
#include "worker/plan/pipeline_choice.hpp"

#include <gtest/gtest.h>

namespace roll::plan {
namespace {

spec::ParallelSpec parallel(int pp, int vpp, spec::Schedule schedule = spec::Schedule::Auto) {
    return {.pp = pp, .vpp = vpp, .schedule = schedule};
}

const std::vector<Costs> kSame = {{1, 1, 1, 100, 146}};

TEST(Choice, AutoIsTheFastestScheduleThatFits) {
    EXPECT_EQ(schedule_of(parallel(4, 1), 8, kSame)->ranks, zero_bubble_h1(4, 8).ranks);
    spec::ParallelSpec limited = parallel(4, 1);
    limited.activation_limit = 400;  // ZB-H1 holds 446 bytes or more on the last rank
    EXPECT_EQ(schedule_of(limited, 8, kSame)->ranks, one_forward_one_backward(4, 8).ranks);
    limited.activation_limit = 399;
    const auto refused = schedule_of(limited, 8, kSame);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "parallel.activation_limit is 399 bytes, but the schedule with the smallest memory "
              "holds 400 bytes of activations on a rank; raise the limit, or set a smaller "
              "train.micro_batch_size");
    EXPECT_EQ(schedule_of(parallel(1, 1), 4)->ranks, one_forward_one_backward(1, 4).ranks);
    EXPECT_EQ(schedule_of(parallel(4, 2), 8)->ranks, interleaved(4, 2, 8).ranks);
}

TEST(Choice, TheFastestOfAllIsZeroBubbleVWhichFitsWhereInterleavingDoes) {
    const std::vector<PipelineSchedule> all = candidates(4, 2, 8);
    const auto best = fastest(all, kSame, 0);
    ASSERT_TRUE(best);
    EXPECT_EQ(all[*best].ranks, zero_bubble_v(4, 8).ranks);
    EXPECT_FALSE(fastest(all, kSame, 100));
}

TEST(Choice, AutoInterleavesInGroupsThatDivide) {
    // groups of 4 would leave two of the ten micro-batches
    EXPECT_EQ(schedule_of(parallel(4, 2), 10)->ranks, interleaved(4, 2, 10, 5).ranks);
    for (int pp = 2; pp <= 8; ++pp)
        for (int m = 1; m <= 64; ++m)
            EXPECT_EQ(schedule_of(parallel(pp, 2), m).has_value(), m >= pp);
    spec::ParallelSpec grouped = parallel(2, 2);
    grouped.group = 3;
    EXPECT_EQ(schedule_of(grouped, 5)->ranks, interleaved(2, 2, 5, 3).ranks);
}

TEST(Choice, AnIncompleteGroupIsRefusedWithBothBubbles) {
    const auto refused = schedule_of(parallel(4, 2, spec::Schedule::Interleaved), 10, {{1, 2, 0}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "the last group of a replica's 10 micro-batches has 2; allowed: 4, as in the other "
              "groups, or at least pp 4; set parallel.group, or change train.global_batch_size: "
              "with 12 micro-batches, the bubble is 0.125 instead of 0.317");
}

TEST(Choice, AScheduleIsTheOneThatIsNamed) {
    EXPECT_EQ(schedule_of(parallel(4, 2, spec::Schedule::ZeroBubbleV), 8)->ranks,
              zero_bubble_v(4, 8).ranks);
    EXPECT_EQ(schedule_of(parallel(4, 2, spec::Schedule::DualPipeV), 8)->ranks,
              dual_pipe_v(4, 8)->ranks);
    EXPECT_FALSE(schedule_of(parallel(4, 2, spec::Schedule::DualPipeV), 4));
}

}  // namespace
}  // namespace roll::plan
