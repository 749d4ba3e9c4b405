#include "worker/agent/core/progress.hpp"

#include <gtest/gtest.h>

namespace roll::agent {
namespace {

using namespace std::chrono_literals;

class Hangs : public testing::Test {
  protected:
    void step(std::size_t rank, std::int64_t number) {
        note_step(ranks[rank], number, 100, 50, now);
    }
    std::string after(Millis silence, Millis declared, Millis start = 0s) const {
        return hang_reason(ranks, {declared, start}, now, now + silence);
    }
    std::vector<RankProgress> ranks = std::vector<RankProgress>(2);
    Instant now = 1000s;
};

TEST_F(Hangs, BeforeTheFirstStepByABoundOfItsOwn) {
    EXPECT_EQ(after(24h, 60s), "") << "none";
    EXPECT_EQ(after(1799s, 60s, 1800s), "");
    EXPECT_EQ(after(1801s, 60s, 1800s),
              "no first step or other activity for 1801 s (at most 1800 s); the logs of the ranks "
              "contain the stacks of all threads");
    EXPECT_NE(after(1801s, 0s, 1800s), "") << "never is said of later steps";
    step(0, 1);
    EXPECT_EQ(after(24h, 0s, 1800s), "");
    EXPECT_EQ(after(1799s, -1s, 1800s), "") << "from one step nothing is learned";
    EXPECT_NE(after(1801s, -1s, 1800s), "");
}

TEST_F(Hangs, TheBoundOfTheStartIsInTheDocument) {
    EXPECT_EQ(start_bound("{}"), 30min);
    EXPECT_EQ(start_bound(""), 30min);
    EXPECT_EQ(start_bound(R"({"hang_first_step": "auto"})"), 30min);
    EXPECT_EQ(start_bound(R"({"hang_first_step": "90s"})"), 90s);
    EXPECT_EQ(start_bound(R"({"hang_first_step": "never"})"), 0s);
}

TEST_F(Hangs, ByTheJobsOwnBound) {
    step(0, 7);
    step(1, 6);
    EXPECT_EQ(after(59s, 60s), "");
    EXPECT_EQ(after(61s, 60s),
              "no step for 61 s after step 6 (at most 60 s); the logs of the ranks contain the "
              "stacks of all threads");
    EXPECT_EQ(after(24h, 0s), "") << "never";
}

TEST_F(Hangs, OneRankThatGetsOnIsEnough) {
    step(0, 7);
    now += 100s;
    step(1, 8);
    EXPECT_EQ(after(59s, 60s), "");
}

TEST_F(Hangs, ByWhatWasLearnedFromTwoStepsOn) {
    step(0, 1);
    EXPECT_EQ(after(24h, -1s), "");
    now += 40s;
    step(0, 2);
    now += 2s;
    step(0, 3);
    EXPECT_EQ(after(699s, -1s), "") << "ten times 40 s, and 300 s";
    EXPECT_NE(after(700s, -1s), "");
}

TEST_F(Hangs, NotAfterTheLastStep) {
    step(0, 99);
    step(1, 100);
    EXPECT_EQ(after(24h, 60s), "") << "it saves, or waits for the others";
}

TEST(SkippedText, NamesWhatAReportSaysAndNothingElse) {
    EXPECT_EQ(skipped_text(R"({"step":300,"steps":300,"skipped_steps":2,"loss":2.5})"),
              "2 of 300 steps were skipped");
    EXPECT_EQ(skipped_text(R"({"skipped_steps":1,"left_out_samples":8})"),
              "1 step was skipped, 8 samples were left out");
    EXPECT_EQ(skipped_text(R"({"left_out_samples":8})"), "8 samples were left out");
    for (const char* said : {"", "[]", "no json", R"({"step":300})", R"({"skipped_steps":0})",
                             R"({"skipped_steps":-1})", R"({"skipped_steps":"<b>"})"})
        EXPECT_EQ(skipped_text(said), "") << said;
}

}  // namespace
}  // namespace roll::agent
