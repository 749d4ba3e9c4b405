#include "common/base64.hpp"

#include <gtest/gtest.h>

namespace roll {
namespace {

TEST(Base64, TextsOfTheStandardAreReadAndWritten) {
    // RFC 4648, section 10
    for (const auto& [bytes, text] : std::map<std::string, std::string>{
             {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}}) {
        EXPECT_EQ(to_base64(bytes), text);
        EXPECT_EQ(from_base64(text), bytes);
    }
    EXPECT_EQ(from_base64("Zm8"), "fo") << "the padding may be missing";
    EXPECT_EQ(from_base64(to_base64({"\0\xff", 2})), std::string("\0\xff", 2));
    for (const char* text : {"Z", "Zm9v$", "Zm9\n", "Zg==Zg==", "Zh=="})
        EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace roll
