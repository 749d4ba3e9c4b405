#include "worker/plan/buckets.hpp"

#include <gtest/gtest.h>

namespace roll::plan {
namespace {

using Numels = std::vector<std::int64_t>;

TEST(Buckets, AreWholeParametersFromTheBack) {
    const Numels numels{10, 3, 4, 5, 6};
    EXPECT_EQ(cut_buckets(numels, 9), (std::vector<Bucket>{{17, 28, 3, 5}, {0, 17, 0, 3}}));
    EXPECT_EQ(cut_buckets(numels, 1).size(), numels.size());
    EXPECT_EQ(cut_buckets(numels, 1000), (std::vector<Bucket>{{0, 28, 0, 5}}));
}

TEST(Buckets, CoverEveryElementOnce) {
    const Numels numels{7, 1, 1, 9, 2, 30, 4};
    for (std::int64_t numel = 1; numel < 60; ++numel) {
        std::int64_t end = 54;
        int parameter_end = 7;
        for (const Bucket& bucket : cut_buckets(numels, numel)) {
            EXPECT_EQ(bucket.end, end);
            EXPECT_EQ(bucket.parameter_end, parameter_end);
            end = bucket.begin;
            parameter_end = bucket.parameter_begin;
        }
        EXPECT_EQ(end, 0);
        EXPECT_EQ(parameter_end, 0);
    }
}

TEST(Buckets, ThereAreAtLeastFourByDefault) {
    for (const Numels& numels : {Numels{1000, 1, 1, 1}, Numels{5, 5, 5, 5, 5}, Numels(40, 1 << 22)})
        EXPECT_GE(cut_buckets(numels, default_bucket_numel(numels)).size(), 4U);
    EXPECT_EQ(default_bucket_numel(Numels(400, 1 << 22)), 1 << 23);
    EXPECT_EQ(cut_buckets(Numels{8, 8}, default_bucket_numel(Numels{8, 8})).size(), 2U);
}

}  // namespace
}  // namespace roll::plan
