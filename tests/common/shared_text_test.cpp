#include "common/shared_text.hpp"

#include <gtest/gtest.h>

namespace roll {
namespace {

SharedText text_of(std::string text) {
    SharedText made;
    made = std::move(text);
    return made;
}

// Returns `second` after it has shared what it can with `first`.
SharedText shared(const std::string& first, const std::string& second) {
    SharedText made = text_of(second);
    made.share_with(text_of(first));
    EXPECT_EQ(made.text(), second);
    EXPECT_EQ(made.size(), second.size());
    EXPECT_EQ(made, text_of(second));
    return made;
}

TEST(SharedText, KeepsOnlyWhatDiffers) {
    const std::string start(200, 's');
    const std::string end(99, 'e');
    EXPECT_EQ(shared(start + "1" + end, start + "23" + end).own_size(), 2u);
    EXPECT_EQ(shared(start + "1", start + "23").own_size(), 2u);
    EXPECT_EQ(shared("1" + end, "23" + end).own_size(), 2u);
    EXPECT_EQ(shared(start, start).own_size(), 0u);
    EXPECT_EQ(shared(start + end, start + "x" + end).own_size(), 1u);
    EXPECT_EQ(shared("", "").own_size(), 0u);
}

// A text of one repeated character shares each character once, from the start or from the end.
TEST(SharedText, DoesNotShareACharacterTwice) {
    EXPECT_EQ(shared(std::string(100, 'a'), std::string(130, 'a')).own_size(), 30u);
    EXPECT_EQ(shared(std::string(130, 'a'), std::string(100, 'a')).own_size(), 0u);
    EXPECT_EQ(shared("aba", "ababa").own_size(), 2u);
}

TEST(SharedText, SharesNothingWithATextThatDiffersInMoreThanHalf) {
    EXPECT_EQ(shared("abcd", "abxyz").own_size(), 5u);
    EXPECT_EQ(shared("", "a").own_size(), 1u);
    EXPECT_EQ(shared("abcd", "abxd").own_size(), 1u);
}

TEST(SharedText, SharesWithATextThatItselfShares) {
    const std::string start(100, 's');
    const SharedText second = shared(start + "1", start + "2");
    SharedText third = text_of(start + "3");
    third.share_with(second);
    EXPECT_EQ(third.own_size(), 1u);
    EXPECT_EQ(third.text(), start + "3");
    third.share_with(third);
    EXPECT_EQ(third.text(), start + "3");
    EXPECT_EQ(second.text(), start + "2");
    third = std::string("4");
    EXPECT_EQ(third.text(), "4");
    EXPECT_NE(third, second);
}

// The first text of a series may share half of itself with the previous series. The next texts have
// much more in common with each other.
TEST(SharedText, SharesWithTheOtherTextIfThatIsMuchCloserThanWhatItShares) {
    const std::string start(100, 's');
    const std::string old(30, 'o');
    const SharedText first = shared(start + old, start + std::string(30, 'n') + "1");
    EXPECT_EQ(first.own_size(), 31u);
    SharedText second = text_of(start + std::string(30, 'n') + "2");
    second.share_with(first);
    EXPECT_EQ(second.own_size(), 1u);
    EXPECT_EQ(second.text(), start + std::string(30, 'n') + "2");
    SharedText third = text_of(start + std::string(25, 'n') + std::string(6, '3'));
    third.share_with(second);
    EXPECT_EQ(third.own_size(), 6u);
}

}  // namespace
}  // namespace roll
