#include "worker/train/save/first_error.hpp"

#include <thread>

#include <gtest/gtest.h>

#include "worker/train/comm/local_communicator.hpp"

namespace roll::train {
namespace {

// Returns what the ranks with these results agree on. All ranks must get the same.
std::optional<RankError> agreed(const std::vector<Result<void>>& results) {
    LocalGroup group(static_cast<int>(results.size()));
    std::vector<std::optional<RankError>> got(results.size());
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < results.size(); ++rank)
        ranks.emplace_back([&, rank] {
            LocalCommunicator world(group, static_cast<int>(rank));
            got[rank] = first_error(world, results[rank]);
        });
    for (std::thread& rank : ranks) rank.join();
    for (const auto& one : got) {
        EXPECT_EQ(one.has_value(), got[0].has_value());
        EXPECT_EQ(one ? one->error.message : "", got[0] ? got[0]->error.message : "");
    }
    return got[0];
}

TEST(FirstError, IsThatOfTheFirstRankWithItsHint) {
    const auto found = agreed({{},
                               fail(ErrorCode::Corrupt, "a.pt ends early", "restore a copy"),
                               fail(ErrorCode::Failed, "b.pt is missing", "look elsewhere")});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->rank, 1);
    EXPECT_EQ(found->error.code, ErrorCode::Corrupt);
    EXPECT_EQ(found->error.message, "a.pt ends early");
    EXPECT_EQ(found->error.hint, "restore a copy");
}

TEST(FirstError, HasNoHintIfTheRankHasNone) {
    const auto found = agreed({fail(ErrorCode::Refused, "the disk is full"), {}});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->rank, 0);
    EXPECT_EQ(found->error.message, "the disk is full");
    EXPECT_EQ(found->error.hint, "");
}

TEST(FirstError, IsCutIfItIsLong) {
    const auto found = agreed({fail(ErrorCode::Failed, std::string(5000, 'a'), "hint"), {}});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->error.message, std::string(2047, 'a'));
    EXPECT_EQ(found->error.hint, "");
}

TEST(FirstError, IsAbsentIfAllSucceed) { EXPECT_FALSE(agreed({{}, {}, {}})); }

}  // namespace
}  // namespace roll::train
