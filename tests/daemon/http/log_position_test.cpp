#include "daemon/http/log_position.hpp"

#include <gtest/gtest.h>

#include "daemon/files/job_file.hpp"

namespace roll::http {
namespace {

Json part(std::uint64_t from, std::uint64_t next, std::uint64_t size, int attempt = 1) {
    return {{"from", from}, {"next", next}, {"size", size}, {"attempt", attempt}};
}

TEST(LogPosition, SendsOnlyWhatIsAddedAfterTheFirstAnswer) {
    LogPosition position("jobs/7/log?rank=0");
    EXPECT_EQ(position.next_target(), "jobs/7/log?rank=0");
    EXPECT_FALSE(position.take(part(0, 40, 40)));
    EXPECT_EQ(position.next_target(), "jobs/7/log?rank=0&from=40");
    EXPECT_FALSE(position.take(part(40, 40, 40))) << "nothing was added";
    EXPECT_TRUE(position.take(part(40, 50, 50)));
    EXPECT_EQ(position.next_target(), "jobs/7/log?rank=0&from=50");
    EXPECT_TRUE(position.take(part(0, 9, 9))) << "the file began again";
    EXPECT_EQ(LogPosition("jobs/7/log").next_target(), "jobs/7/log");
}

TEST(LogPosition, BeginsAgainWithAnotherAttemptAndGoesOnAfterAnError) {
    LogPosition position("jobs/7/log");
    EXPECT_TRUE(position.take({{"error", {{"code", "not_found"}}}}));
    EXPECT_EQ(position.next_target(), "jobs/7/log");
    position.take(part(0, 40, 40));
    EXPECT_FALSE(position.take(part(40, 60, 60, 2))) << "the first 40 bytes are missing";
    EXPECT_EQ(position.next_target(), "jobs/7/log?from=0");
    EXPECT_TRUE(position.take(part(0, 60, 60, 2)));
    EXPECT_TRUE(position.take({{"error", {{"code", "unavailable"}}}}));
    EXPECT_TRUE(position.take(Json()));
    EXPECT_EQ(position.next_target(), "jobs/7/log?from=60");
    EXPECT_FALSE(position.take(part(60, 60, 60, 2)));
    EXPECT_TRUE(position.take(part(60, 61, 61, 2)));
}

TEST(LogPosition, LeavesOutTextOfALogThatGrowsFasterThanItIsSent) {
    constexpr std::uint64_t kPart = files::kPieceBytesMax;
    LogPosition position("jobs/7/log");
    position.take(part(0, kPart, kPart));
    EXPECT_TRUE(position.take(part(kPart, 2 * kPart, 4 * kPart)));
    EXPECT_EQ(position.next_target(), "jobs/7/log?from=" + std::to_string(2 * kPart));
    EXPECT_TRUE(position.take(part(2 * kPart, 3 * kPart, 9 * kPart)));
    EXPECT_EQ(position.next_target(), "jobs/7/log?from=" + std::to_string(8 * kPart));
}

}  // namespace
}  // namespace roll::http
