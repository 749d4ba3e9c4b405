// Tests what check() refuses, the rules of the transport, and the costs of the stages.
#include "worker/plan/pipeline_check.hpp"

#include <gtest/gtest.h>

namespace roll::plan {
namespace {

using Bytes = std::vector<std::int64_t>;

// The lines of one NCCL communicator and stream for each of activations and gradients
constexpr Transport kChannels{Transport::Lines::Channels, 0};

void expect_refused(const PipelineSchedule& schedule, const std::string& why,
                    Transport transport = {}) {
    const auto report = check(schedule, {}, transport);
    ASSERT_FALSE(report);
    EXPECT_NE(report.error().message.find(why), std::string::npos) << report.error().message;
}

TEST(Check, RefusesLostAndDoubledWork) {
    PipelineSchedule schedule = one_forward_one_backward(2, 4);
    schedule.ranks[1].pop_back();
    expect_refused(schedule, "rank 1, W3: this operation is missing");
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
    expect_refused(schedule, "rank 1, F0: would receive the message of another micro-batch");
}

TEST(Check, NamesTheRanksThatWaitForEachOther) {
    // ranks: F0 B0 W0 F1 ... and F0 F1 B0 W0 ...
    PipelineSchedule schedule = one_forward_one_backward(2, 2);
    std::swap(schedule.ranks[0][1], schedule.ranks[0][2]);  // rank 0: F0 B0 F1 ...
    std::swap(schedule.ranks[1][1], schedule.ranks[1][3]);  // rank 1: F0 F1 W0 B0 ...
    std::swap(schedule.ranks[1][2], schedule.ranks[1][3]);  // rank 1: F0 F1 B0 W0 ...
    expect_refused(schedule,
                   "rank 0, B0: deadlock: the input of this operation never arrives: rank 0's "
                   "receive for B0 from rank 1 waits for rank 1's receive for F1 from rank 0 waits "
                   "for rank 0's receive for B0 from rank 1");
}

TEST(Check, RefusesAHandOverThatComesTooLate) {
    PipelineSchedule schedule = zero_bubble_v(1, 1);
    ASSERT_EQ(to_string(schedule.ranks[0][1]), "F0'");
    std::swap(schedule.ranks[0][0], schedule.ranks[0][1]);
    expect_refused(schedule,
                   "rank 0, F0': deadlock: the input of this operation never arrives: "
                   "F0' takes the result of an operation that rank 0 runs later");
}

TEST(Check, InterleavingNeedsALinkForEachDirection) {
    for (const int pp : {2, 4}) {
        for (const int vp : {2, 4}) {
            for (const int microbatches : {pp, 2 * pp}) {
                const PipelineSchedule schedule = interleaved(pp, vp, microbatches);
                const std::string first = std::to_string(pp - 1);
                expect_refused(schedule,
                               "rank 0, F0': deadlock: the input of this operation never arrives: "
                               "rank 0's send of F" +
                                   first + " to rank 1 waits for rank 1's send of F" +
                                   std::to_string(pp - 2) + " to rank " + std::to_string(2 % pp),
                               kChannels);
                EXPECT_TRUE(check(schedule));
            }
        }
        EXPECT_TRUE(check(one_forward_one_backward(pp, 8), {}, kChannels));
        EXPECT_TRUE(check(zero_bubble_h1(pp, 8), {}, kChannels));
    }
}

TEST(Check, CountsTheMessagesOfEachLink) {
    const std::vector<LinkUse> loop = {
        {0, 1, false, 8}, {0, 1, true, 4}, {1, 0, false, 4}, {1, 0, true, 8}};
    EXPECT_EQ(check(interleaved(2, 2, 4))->links, loop);
    // The two middle stages are on rank 1, and hand over without a message.
    const std::vector<LinkUse> v = {
        {0, 1, false, 4}, {0, 1, true, 4}, {1, 0, false, 4}, {1, 0, true, 4}};
    EXPECT_EQ(check(zero_bubble_v(2, 4))->links, v);
}

TEST(Check, EveryStageHasItsOwnTimes) {
    // The last of two stages takes three times as long for its forward.
    const std::vector<Costs> costs = {{1, 1, 1}, {3, 1, 1}};
    const ScheduleReport report = check(one_forward_one_backward(2, 4), costs).value();
    EXPECT_DOUBLE_EQ(report.ends[1][0], 4);  // F0
    EXPECT_DOUBLE_EQ(report.makespan, 1 + 4 * 5 + 1);
    EXPECT_DOUBLE_EQ(report.bubble, 22.0 / 16 - 1);
    EXPECT_DOUBLE_EQ(report.imbalance, 20.0 / 16);
    EXPECT_FALSE(check(one_forward_one_backward(2, 4), {{}, {}, {}}));
}

TEST(Check, CountsTheBytesAfterForwardAndAfterBackward) {
    const std::vector<Costs> costs = {{.after_forward = 10, .after_backward = 15},
                                      {.after_forward = 20, .after_backward = 30}};
    // Rank 1 holds one micro-batch, whose weight half waits for its input half.
    EXPECT_EQ(check(one_forward_one_backward(2, 4), costs)->peak_bytes, (Bytes{20, 30}));
    // The first stage computes both halves in one pass.
    EXPECT_EQ(check(gpipe(2, 1, 4), costs)->peak_bytes, (Bytes{40, 90}));
    // ZB-H1 delays the weight halves of rank 1 by one micro-batch.
    EXPECT_EQ(check(zero_bubble_h1(2, 4), costs)->peak_bytes, (Bytes{20, 60}));
}

}  // namespace
}  // namespace roll::plan
