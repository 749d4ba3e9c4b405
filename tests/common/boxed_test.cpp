#include "common/boxed.hpp"

#include <string>

#include <gtest/gtest.h>

namespace roll {
namespace {

using Text = Boxed<std::string>;

TEST(Boxed, NeedsOnlyAPointerWithoutAValue) {
    EXPECT_EQ(sizeof(Text), sizeof(void*));
    Text text;
    EXPECT_FALSE(text);
    text = std::string("a");
    EXPECT_TRUE(text.has_value());
    EXPECT_EQ(text.value(), "a");
    text.reset();
    EXPECT_FALSE(text);
}

TEST(Boxed, CopiesItsValue) {
    Text first;
    first = std::string("a");
    Text second = first;
    Text third;
    third = first;
    *first = "b";
    EXPECT_EQ(*second, "a");
    EXPECT_EQ(*third, "a");
    third = *&third;
    EXPECT_EQ(*third, "a");
    third = Text();
    EXPECT_FALSE(third);
}

TEST(Boxed, ComparesValues) {
    Text first;
    Text second;
    EXPECT_EQ(first, second);
    first = std::string("a");
    EXPECT_NE(first, second);
    second = std::string("a");
    EXPECT_EQ(first, second);
    *second = "b";
    EXPECT_NE(first, second);
}

}  // namespace
}  // namespace roll
