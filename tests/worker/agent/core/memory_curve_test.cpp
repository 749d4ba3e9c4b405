#include "worker/agent/core/memory_curve.hpp"

#include <gtest/gtest.h>

namespace roll::agent {
namespace {

using namespace std::chrono_literals;
using Values = std::vector<std::int64_t>;

constexpr std::int64_t kMebibyte = 1 << 20;

TEST(MemoryCurve, HasTheLargestValueOfEachInterval) {
    MemoryCurve curve;
    for (const auto& [at, mebibytes] : {std::pair{0ms, 5}, {1000ms, 9}, {1999ms, 7}, {2000ms, 4}})
        add_memory(curve, mebibytes * kMebibyte, 100s + at);
    EXPECT_EQ(curve.mebibytes, (Values{9, 4}));
    add_memory(curve, 6 * kMebibyte, 108s);
    EXPECT_EQ(curve.mebibytes, (Values{9, 4, 4, 4, 6})) << "nothing changed in between";
}

TEST(MemoryCurve, StaysShortAndKeepsItsPeaks) {
    MemoryCurve curve;
    for (int second = 0; second < 63; second += 2)
        add_memory(curve, (second == 10 ? 99 : 1) * kMebibyte, std::chrono::seconds(second));
    EXPECT_EQ(curve.mebibytes.size(), kMemoryValuesMax);
    EXPECT_EQ(curve.every, 2s);
    add_memory(curve, 2 * kMebibyte, 64s);
    EXPECT_EQ(curve.every, 4s);
    ASSERT_EQ(curve.mebibytes.size(), kMemoryValuesMax / 2 + 1);
    EXPECT_EQ(curve.mebibytes[10 / 4], 99);
    EXPECT_EQ(curve.mebibytes.back(), 2);
    add_memory(curve, 3 * kMebibyte, 24h);  // no measurement for a day
    EXPECT_LE(curve.mebibytes.size(), kMemoryValuesMax);
    EXPECT_EQ(curve.mebibytes.front(), 99);
    EXPECT_EQ(curve.mebibytes.back(), 3);
}

}  // namespace
}  // namespace roll::agent
