#include "worker/agent/core/verdict.hpp"

#include <gtest/gtest.h>

namespace roll::agent {
namespace {

ExitStatus exited(int code) { return {.number = code}; }
ExitStatus killed(int signal) { return {.signaled = true, .number = signal}; }

struct Row {
    const char* what;
    bool command;
    std::vector<std::optional<ExitStatus>> exits;
    std::optional<int> first_failed;
    std::optional<StopCause> stopped;
    Outcome outcome;
    int exit_code;
};

const std::vector<Row> kRows = {
    {"all done", false, {exited(0), exited(0)}, {}, {}, Outcome::Done, 0},
    {"own failure", false, {exited(0), exited(1)}, 1, {}, Outcome::App, 1},
    {"invalid input", false, {exited(2)}, 0, {}, Outcome::Invalid, 2},
    {"full disk", false, {exited(4)}, 0, {}, Outcome::App, 4},
    {"no GPU", false, {exited(77)}, 0, {}, Outcome::Infra, 77},
    {"killed by a stranger", false, {killed(9)}, 0, {}, Outcome::Infra, 137},
    {"peer lost elsewhere", false, {exited(76), killed(9)}, {}, {}, Outcome::Infra, 76},
    {"diverged", false, {exited(76), exited(3)}, 1, {}, Outcome::Invalid, 3},
    {"peer lost, culprit here", false, {exited(76), exited(5)}, 1, {}, Outcome::App, 5},
    {"yielded", false, {exited(75), exited(75)}, {}, StopCause::Asked, Outcome::Yielded, 75},
    {"finished while stopping", false, {exited(0)}, {}, StopCause::Asked, Outcome::Done, 0},
    {"stopped", false, {killed(15)}, {}, StopCause::Asked, Outcome::Stopped, 143},
    {"lease lost, no checkpoint",
     false,
     {killed(9)},
     {},
     StopCause::LeaseLost,
     Outcome::Infra,
     137},
    {"lease lost, yielded", false, {exited(75)}, {}, StopCause::LeaseLost, Outcome::Yielded, 75},
    {"drained", false, {killed(15)}, {}, StopCause::Draining, Outcome::Infra, 143},
    {"guard gone", false, {std::nullopt}, {}, {}, Outcome::Infra, 1},
    {"command done", true, {exited(0)}, {}, {}, Outcome::Done, 0},
    {"command killed by itself", true, {killed(9)}, 0, {}, Outcome::App, 137},
    {"command failed like invalid", true, {exited(2)}, 0, {}, Outcome::App, 2},
    {"command's 75 unasked", true, {exited(75)}, 0, {}, Outcome::App, 75},
    {"command's 75 when asked", true, {exited(75)}, {}, StopCause::Draining, Outcome::Yielded, 75},
    {"command ends well on SIGTERM", true, {exited(0)}, {}, StopCause::Asked, Outcome::Stopped, 0},
};

TEST(Judge, SaysHowAnAttemptEnded) {
    for (const Row& row : kRows) {
        Ending ending{.command = row.command, .exits = row.exits};
        ending.failures.resize(row.exits.size());
        ending.first_failed = row.first_failed;
        ending.stopped = row.stopped;
        ending.stop_reason = "because";
        const Verdict verdict = judge(ending);
        EXPECT_EQ(verdict.outcome, row.outcome) << row.what;
        EXPECT_EQ(verdict.exit_code, row.exit_code) << row.what;
        EXPECT_EQ(verdict.reason.empty(), verdict.outcome == Outcome::Done) << row.what;
    }
}

TEST(Judge, GivesTheReasonThatTheFirstFailedRankSaid) {
    Ending ending{.exits = {exited(76), exited(1)}, .failures = {"peer gone", "out of memory"}};
    ending.first_failed = 1;
    EXPECT_EQ(judge(ending).reason, "out of memory");
    ending.failures[1].clear();
    ending.first_rank = 4;
    EXPECT_EQ(judge(ending).reason, "rank 5 ended with exit status 1");
}

TEST(Judge, GivesTheFailureOfALostPeerIfNoRankFailed) {
    const Ending ending{.exits = {exited(76), exited(76)}, .failures = {"", "rank 3 never came"}};
    EXPECT_EQ(judge(ending).reason,
              "a rank lost contact with another rank, and no rank on this node failed: rank 3 "
              "never came");
}

TEST(Judge, ALostPeerOrAYieldIsNoFailureOfItsOwn) {
    EXPECT_FALSE(failed_by_itself(exited(0), false));
    EXPECT_FALSE(failed_by_itself(exited(75), false));
    EXPECT_FALSE(failed_by_itself(exited(76), false));
    EXPECT_TRUE(failed_by_itself(exited(1), false));
    EXPECT_TRUE(failed_by_itself(killed(11), false));
    EXPECT_TRUE(failed_by_itself(exited(76), true));
}

}  // namespace
}  // namespace roll::agent
