#include "common/rate_limit.hpp"

#include <gtest/gtest.h>

namespace roll {
namespace {

using std::chrono::milliseconds;

constexpr int kBurst = 200;

TEST(RateLimit, AllowsABurstAndThenTheRate) {
    RateLimit limit(10, kBurst);
    const RateLimit::Instant start{};
    for (int i = 0; i < kBurst; ++i) ASSERT_FALSE(limit.take("ann", start)) << i;
    EXPECT_EQ(limit.take("ann", start), milliseconds(100));
    EXPECT_FALSE(limit.take("bob", start)) << "each client has its own bucket";
    EXPECT_EQ(limit.take("ann", start + milliseconds(50)), milliseconds(50));
    EXPECT_FALSE(limit.take("ann", start + milliseconds(100)));
    EXPECT_TRUE(limit.take("ann", start + milliseconds(100)));
    int allowed = 0;
    for (int i = 0; i < 1000; ++i) allowed += !limit.take("ann", start + std::chrono::hours(1));
    EXPECT_EQ(allowed, kBurst) << "unused requests do not add up for ever";
}

TEST(RateLimit, ManyClientsTakeABoundedAmountOfMemory) {
    RateLimit limit(1, kBurst);
    const RateLimit::Instant start{};
    for (std::size_t i = 0; i < RateLimit::kClientsMax; ++i) limit.take(std::to_string(i), start);
    EXPECT_TRUE(limit.knows("0"));
    limit.take("late", start);
    EXPECT_FALSE(limit.knows("late")) << "it shares a bucket with all further clients";
    for (int i = 0; i < kBurst; ++i) limit.take("later", start);
    EXPECT_TRUE(limit.take("latest", start));
    limit.take("late", start + std::chrono::seconds(2));
    EXPECT_TRUE(limit.knows("late")) << "clients whose buckets are full again are forgotten";
    EXPECT_FALSE(limit.knows("0"));
}

TEST(RateLimit, OfZeroIsNone) {
    RateLimit limit(0, 0);
    for (int i = 0; i < 1000; ++i) EXPECT_FALSE(limit.take("ann", {}));
}

}  // namespace
}  // namespace roll
