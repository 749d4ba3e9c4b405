#include <gtest/gtest.h>

#include "daemon/query/query.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::query {
namespace {

TEST(Totals, CountsJobsUsersAndCapacity) {
    core::Desk desk;
    desk.join("n1", 4);
    for (int i = 0; i < 3; ++i) desk.submit(core::wants(1, 2));
    const Json all = totals(desk.state, desk.now);
    EXPECT_EQ(all["jobs"]["running"], 2);
    EXPECT_EQ(all["jobs"]["queued"], 1);
    EXPECT_EQ(all["submitted"], 3);
    EXPECT_EQ(all["nodes"]["connected"], 1);
    EXPECT_EQ(all["capacity"]["slots_free"], 0);
    ASSERT_EQ(all["users"].size(), 1u);
    EXPECT_EQ(all["users"][0]["running"], 2);
    EXPECT_EQ(all["users"][0]["slots"], 4);
    EXPECT_EQ(all["users"][0]["queued"], 1);
}

}  // namespace
}  // namespace roll::query
