#include "daemon/http/rate_limit.hpp"

#include <gtest/gtest.h>

namespace roll::http {
namespace {

using std::chrono::milliseconds;

TEST(RateLimit, AllowsABurstAndThenTheRate) {
    RateLimit limit(10);
    const RateLimit::Instant start{};
    for (int i = 0; i < 10 * RateLimit::kBurstSeconds; ++i)
        ASSERT_FALSE(limit.take("ann", start)) << i;
    EXPECT_EQ(limit.take("ann", start), milliseconds(100));
    EXPECT_FALSE(limit.take("bob", start)) << "each client has its own bucket";
    EXPECT_EQ(limit.take("ann", start + milliseconds(50)), milliseconds(50));
    EXPECT_FALSE(limit.take("ann", start + milliseconds(100)));
    EXPECT_TRUE(limit.take("ann", start + milliseconds(100)));
    int allowed = 0;
    for (int i = 0; i < 1000; ++i) allowed += !limit.take("ann", start + std::chrono::hours(1));
    EXPECT_EQ(allowed, 10 * RateLimit::kBurstSeconds) << "unused requests do not add up for ever";
}

TEST(RateLimit, ManyClientsTakeABoundedAmountOfMemory) {
    RateLimit limit(1);
    const RateLimit::Instant start{};
    for (std::size_t i = 0; i < RateLimit::kClientsMax; ++i) limit.take(std::to_string(i), start);
    EXPECT_TRUE(limit.knows("0"));
    limit.take("late", start);
    EXPECT_FALSE(limit.knows("late")) << "it shares a bucket with all further clients";
    for (int i = 0; i < RateLimit::kBurstSeconds; ++i) limit.take("later", start);
    EXPECT_TRUE(limit.take("latest", start));
    limit.take("late", start + std::chrono::seconds(2));
    EXPECT_TRUE(limit.knows("late")) << "clients whose buckets are full again are forgotten";
    EXPECT_FALSE(limit.knows("0"));
}

TEST(RateLimit, AMachineIsOneClientWhateverItsAddresses) {
    EXPECT_EQ(client_of_address("192.0.2.1"), "192.0.2.1");
    EXPECT_EQ(client_of_address("2001:db8:0:1::1"), client_of_address("2001:db8:0:1:ffff::2"));
    EXPECT_NE(client_of_address("2001:db8:0:1::1"), client_of_address("2001:db8:0:2::1"));
    EXPECT_NE(client_of_address("::ffff:192.0.2.1"), client_of_address("::ffff:192.0.2.2"));
}

}  // namespace
}  // namespace roll::http
