#include "common/spec/job/log_name.hpp"

#include <gtest/gtest.h>

namespace roll::spec {
namespace {

TEST(LogName, SpecifiersAreReplacedAndNumbersPaddedAsSbatchDoes) {
    const LogNameValues values = {{'j', "128"}, {'x', "mine"}, {'r', "3"}};
    EXPECT_EQ(expand_log_name("%x-%5j-%r.log", values, true), "mine-00128-3.log");
    EXPECT_EQ(expand_log_name("%2j%9x", values, true), "128mine") << "only numbers are padded";
    EXPECT_EQ(expand_log_name("%99999999999999999999j", values, true), "0000000128");
    EXPECT_EQ(expand_log_name("100%%j", values, true), "100%j");
    EXPECT_EQ(expand_log_name("plain", values, true), "plain");
    EXPECT_EQ(expand_log_name("", values, true), "");
}

TEST(LogName, AFirstRoundLeavesTheOtherSpecifiers) {
    EXPECT_EQ(expand_log_name("%u-%%u-%4j%", {{'u', "ann"}}, false), "ann-%%u-%4j%");
}

TEST(LogName, AnUnknownSpecifierIsNamed) {
    EXPECT_FALSE(unknown_specifier("%%%A%a%J%j%N%n%r%s%t%u%x%3j"));
    EXPECT_EQ(unknown_specifier("a%zb%q"), "%z");
    EXPECT_EQ(unknown_specifier("a%"), "%");
    EXPECT_EQ(unknown_specifier("a%12"), "%12");
}

TEST(LogName, AnEscapedLetterIsNoSpecifier) {
    EXPECT_TRUE(has_specifier("a-%3r", "rt"));
    EXPECT_FALSE(has_specifier("a-%%r", "rt"));
    EXPECT_FALSE(has_specifier("a-r%", "rt"));
}

}  // namespace
}  // namespace roll::spec
