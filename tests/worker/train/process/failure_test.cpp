#include "worker/train/process/failure.hpp"

#include <gtest/gtest.h>

namespace roll::train {
namespace {

// Returns the failure that `call` throws.
template <class Call>
RankFailure thrown_by(Call call) {
    try {
        call();
    } catch (const RankFailure& failure) {
        return failure;
    }
    ADD_FAILURE() << "nothing was thrown";
    return {0, ""};
}

TEST(Failure, NamesTheHintOfAnError) {
    const Error error{ErrorCode::Corrupt, "a.pt ends early", "restore a copy"};
    const RankFailure needed = thrown_by([&] { need(Result<int>(tl::unexpected(error))); });
    EXPECT_STREQ(needed.what(), "a.pt ends early; restore a copy");
    EXPECT_EQ(needed.status(), 1);
    const RankFailure read = thrown_by([&] { of_disk(Result<void>(tl::unexpected(error))); });
    EXPECT_STREQ(read.what(), "a.pt ends early; restore a copy");
    EXPECT_EQ(read.status(), 2);
}

TEST(Failure, HasOnlyTheMessageOfAnErrorWithoutHint) {
    const Error error{ErrorCode::Refused, "the disk is full"};
    const RankFailure failure = thrown_by([&] { of_disk(Result<int>(tl::unexpected(error))); });
    EXPECT_STREQ(failure.what(), "the disk is full");
    EXPECT_EQ(failure.status(), 4);
}

TEST(Failure, ReturnsTheValueOfASuccess) {
    EXPECT_EQ(need(Result<int>(7)), 7);
    EXPECT_EQ(of_disk(Result<int>(7)), 7);
}

}  // namespace
}  // namespace roll::train
