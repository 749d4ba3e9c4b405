// Tests sums of texts in an arena, which extend the newest text in place.
#include "worker/chat/arena.hpp"

#include <gtest/gtest.h>

namespace roll::chat {
namespace {

TEST(Arena, ATextThatWasExtendedKeepsItsValue) {
    Arena arena(1 << 20);
    const std::string_view a = arena.copy("left");
    const std::string_view ab = arena.join(a, "+one, which is longer than the padding");
    const std::string_view ac = arena.join(a, "+two");  // `a` is no longer the newest
    EXPECT_EQ(a, "left");
    EXPECT_EQ(ab, "left+one, which is longer than the padding");
    EXPECT_EQ(ac, "left+two");
    EXPECT_EQ(ab.data(), a.data());
    EXPECT_NE(ac.data(), a.data());
    EXPECT_EQ(arena.join(ac, ""), "left+two");
    auto* const next = arena.make<double>(1);
    *next = -1;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(next) % alignof(std::max_align_t), 0);
    EXPECT_EQ(ac, "left+two");
}

TEST(Arena, ATextThatIsOftenExtendedTakesItsOwnSizeAndStopsAtTheLimit) {
    Arena arena(1 << 20);
    std::string_view text = arena.copy("");
    std::string wanted;
    const auto extend = [&](int times) {
        for (int i = 0; i < times; ++i) {
            text = arena.join(text, "0123456789");
            wanted += "0123456789";
        }
    };
    extend(40'000);
    EXPECT_EQ(text, wanted);  // 400 kB; copies of each sum would take 8 GB
    EXPECT_THROW(extend(60'000), Failure);
}

}  // namespace
}  // namespace roll::chat
