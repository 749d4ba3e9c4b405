#include "worker/layout/rows.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace roll::layout {
namespace {

TEST(Rows, EveryRowHasOneOwnerAndTheSharesDifferByAtMostOneRow) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
        for (std::int64_t rows = 0; rows <= 40; ++rows) {
            std::int64_t next = 0, least = rows, most = 0;
            for (int rank = 0; rank < ranks; ++rank) {
                const Rows own = own_rows(rows, ranks, rank);
                EXPECT_EQ(own.begin, next) << rows << " rows, rank " << rank << " of " << ranks;
                next += own.count;
                least = std::min(least, own.count);
                most = std::max(most, own.count);
            }
            EXPECT_EQ(next, rows);
            EXPECT_LE(most - least, 1);
        }
    }
}

TEST(Rows, AreCountedIn64Bits) {
    EXPECT_EQ(own_rows(std::int64_t{1} << 40, 4, 3),
              (Rows{std::int64_t{3} << 38, std::int64_t{1} << 38}));
}

}  // namespace
}  // namespace roll::layout
