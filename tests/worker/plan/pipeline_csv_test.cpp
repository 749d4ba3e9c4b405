// Schedules that users write as CSV files.
#include "worker/plan/pipeline_csv.hpp"

#include <gtest/gtest.h>

namespace roll::plan {
namespace {

// Returns the file of a schedule, in the format of torch.distributed.pipelining.
std::string csv_of(const PipelineSchedule& schedule) {
    std::string text;
    for (int rank = 0; rank < schedule.pp; ++rank) {
        for (const Op& op : schedule.ranks[rank]) {
            const char* const kinds[] = {"F", "I", "W"};
            text += std::to_string(schedule.stage(rank, op.chunk)) +
                    kinds[static_cast<int>(op.kind)] + std::to_string(op.microbatch) + ",";
        }
        text += "\n";
    }
    return text;
}

std::string refused(const char* text, int pp = 2, int vp = 1, int microbatches = 1) {
    const auto schedule = schedule_from_csv(text, pp, vp, microbatches);
    return schedule ? "accepted" : schedule.error().message;
}

TEST(PipelineCsv, ReadsEveryScheduleAsItIs) {
    for (const PipelineSchedule& schedule :
         {one_forward_one_backward(4, 8), gpipe(2, 2, 4), interleaved(2, 2, 4),
          zero_bubble_h1(4, 8), zero_bubble_v(4, 8), dual_pipe_v(2, 6).value()}) {
        const auto read =
            schedule_from_csv(csv_of(schedule), schedule.pp, schedule.vp, schedule.microbatches);
        ASSERT_TRUE(read) << read.error().message;
        EXPECT_EQ(read->ranks, schedule.ranks) << schedule.name;
        EXPECT_EQ(read->placing, schedule.placing) << schedule.name;
        EXPECT_EQ(read->name, "file");
    }
}

TEST(PipelineCsv, ReadsAFullBackwardAsBothHalvesAndSkipsIdleCells) {
    const auto read = schedule_from_csv("0F0,,,,\"0B0\"\r\n,1F0, 1B0 ,,\n", 2, 1, 1);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->ranks, one_forward_one_backward(2, 1).ranks);
}

TEST(PipelineCsv, NamesTheRankAndTheOperationOfAMistake) {
    EXPECT_EQ(refused("0F0,0B0\n"), "has 1 line; allowed: 2, one for each pipeline rank");
    EXPECT_EQ(
        refused("0F0,0B0\n1F0,1X0\n"),
        "rank 1, cell 2: \"1X0\" is not an operation; allowed: STAGE, then F, I, W or B, then "
        "MICROBATCH, such as 0F3");
    EXPECT_EQ(refused("0F0,0B0\n1F0,SEND_F\n").find("rank 1, cell 2"), 0U);
    EXPECT_EQ(refused("0F0,-1B0\n1F0,1B0\n").find("rank 0, cell 2"), 0U);
    EXPECT_EQ(refused("0F0,0B0\n1F0,1B0,5F0\n"),
              "rank 1, 5F0: this stage does not exist; allowed: 0 to 1");
    EXPECT_EQ(refused("0F0,1B0\n1F0,1B0\n"), "rank 0, 1B0: stage 1 belongs to rank 1");
    EXPECT_EQ(refused("0F0,0B0\n1F0\n"), "rank 1, B0: this operation is missing");
    EXPECT_EQ(refused("0F0,0F0,0B0\n1F0,1B0\n"),
              "rank 0, F0: this operation is repeated or out of order");
    EXPECT_EQ(refused("0F0,0B0,0F1,0B1\n1F0,1B0,1F1\n", 2, 1, 2),
              "rank 1, B1: this operation is missing");
    EXPECT_EQ(refused("0F0,0F2,0B0\n1F0,1B0\n", 2, 1, 2),
              "rank 0, F2: this chunk or micro-batch does not exist");
    // rank 0 waits for a gradient of a micro-batch whose activations it has not sent
    const std::string deadlock = refused("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", 2, 1, 2);
    EXPECT_NE(deadlock.find("B0"), std::string::npos) << deadlock;
    EXPECT_NE(deadlock.find("F1"), std::string::npos) << deadlock;
}

}  // namespace
}  // namespace roll::plan
