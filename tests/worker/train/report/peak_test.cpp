#include "worker/train/report/peak.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace roll::train {
namespace {

// Returns the FLOP/s that fastest_product() reports of a machine with 1 GFLOP/s, on which the
// products with these numbers take `delay` seconds longer. Adds to `products` how many there were.
double measured(const std::vector<int>& delayed, double delay, int& products) {
    return fastest_product({100, 200}, [&](std::int64_t size) {
        const double seconds = 2e-9 * static_cast<double>(size * size * size);
        const bool late = std::ranges::count(delayed, products++) > 0;
        return seconds + (late ? delay : 0);
    });
}

TEST(Peak, IsThatOfTheFastestProductHoweverLateOthersAre) {
    int products = 0;
    EXPECT_NEAR(measured({}, 0, products), 1e9, 1);
    EXPECT_EQ(products, 13) << "six of 2 ms and six of 16 ms after the first";
    const std::vector<std::vector<int>> cases = {{0}, {1}, {0, 1}, {0, 1, 2}, {0, 2, 3}};
    for (const std::vector<int>& delayed : cases) {
        products = 0;
        EXPECT_NEAR(measured(delayed, 5, products), 1e9, 1);
        EXPECT_LE(products, 13);
    }
}

}  // namespace
}  // namespace roll::train
