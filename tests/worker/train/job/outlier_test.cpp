// Tests the limit above which a loss or a gradient norm is an outlier.
#include "worker/train/job/outlier.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace roll::train {
namespace {

TEST(Outlier, NeedsSixteenValues) {
    EXPECT_FALSE(outlier_limit(std::vector<double>(15, 2.0), 6));
    EXPECT_TRUE(outlier_limit(std::vector<double>(16, 2.0), 6));
}

TEST(Outlier, TheLimitIsInDeviationsOfNormalNoise) {
    std::vector<double> values;
    for (int i = 1; i <= 33; ++i) values.push_back(i);  // median 17, median absolute deviation 8
    const auto limit = outlier_limit(values, 3);
    EXPECT_EQ(limit->median, 17);
    EXPECT_DOUBLE_EQ(limit->limit, 17 + 3 * 1.4826 * 8);
    std::ranges::reverse(values);
    EXPECT_EQ(outlier_limit(values, 3)->limit, limit->limit);
}

TEST(Outlier, TheLimitIsAtLeastOneTwentiethAboveTheMedian) {
    EXPECT_DOUBLE_EQ(outlier_limit(std::vector<double>(20, 2.0), 6)->limit, 2.1);
    EXPECT_DOUBLE_EQ(outlier_limit(std::vector<double>(20, -2.0), 6)->limit, -1.9);
    EXPECT_EQ(outlier_limit(std::vector<double>(20, 0.0), 6)->limit, 0);
}

TEST(Outlier, OutliersAmongTheValuesHardlyMoveTheLimit) {
    std::vector<double> values;
    for (int i = 0; i < 40; ++i) values.push_back(2 + 0.01 * (i % 5));
    const double before = outlier_limit(values, 6)->limit;
    for (int i = 0; i < 4; ++i) values[static_cast<std::size_t>(i)] = 1e6;
    EXPECT_NEAR(outlier_limit(values, 6)->limit, before, 0.01);
}

}  // namespace
}  // namespace roll::train
