#include "worker/train/data/sample_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include <gtest/gtest.h>

namespace roll::train {
namespace {

// Samples whose lengths have a log-normal distribution, as those of conversations do. A sample's
// cost grows with the square of its length.
std::vector<SampleSize> log_normal(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::lognormal_distribution<double> length(6, 0.8);
    std::vector<SampleSize> sizes;
    for (std::size_t i = 0; i < count; ++i) {
        const auto tokens = std::clamp<std::int64_t>(std::llround(length(random)), 1, 2048);
        sizes.push_back({static_cast<double>(tokens) * static_cast<double>(tokens), tokens});
    }
    return sizes;
}

// Returns the largest cost of a replica divided by the mean.
double imbalance(const std::vector<ReplicaPart>& parts, const std::vector<SampleSize>& sizes) {
    double most = 0, all = 0;
    for (const ReplicaPart& part : parts) {
        double cost = 0;
        for (const auto& samples : part)
            for (const std::int64_t i : samples) cost += sizes[static_cast<std::size_t>(i)].cost;
        most = std::max(most, cost);
        all += cost;
    }
    return most * static_cast<double>(parts.size()) / all;
}

// Expects that each sample is in exactly one micro-batch, and that all replicas have equally many
// micro-batches.
void expect_whole(const std::vector<ReplicaPart>& parts, std::size_t count) {
    std::vector<int> seen(count);
    for (const ReplicaPart& part : parts) {
        EXPECT_EQ(part.size(), parts[0].size());
        for (const auto& samples : part) {
            EXPECT_TRUE(std::ranges::is_sorted(samples));
            for (const std::int64_t i : samples) ++seen[static_cast<std::size_t>(i)];
        }
    }
    EXPECT_EQ(std::ranges::count(seen, 1), static_cast<std::ptrdiff_t>(count));
}

TEST(SampleParts, BalancedReplicasDifferByAtMostATenth) {
    double in_order = 0, balanced = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
        const std::vector<SampleSize> sizes = log_normal(256, seed);
        PartRules rules{.replicas = 8, .microbatches = 8, .micro_batch_size = 4};
        const auto plain = parts_of_batch(rules, sizes);
        rules.balance = true;
        const auto even = parts_of_batch(rules, sizes);
        expect_whole(plain, sizes.size());
        expect_whole(even, sizes.size());
        for (const ReplicaPart& part : even)
            for (const auto& samples : part) EXPECT_EQ(samples.size(), 4u);
        in_order = std::max(in_order, imbalance(plain, sizes));
        balanced = std::max(balanced, imbalance(even, sizes));
        EXPECT_EQ(even, parts_of_batch(rules, sizes));
    }
    std::printf("largest replica / mean: %.3f in order, %.3f balanced\n", in_order, balanced);
    EXPECT_GT(in_order, 1.3);
    EXPECT_LE(balanced, 1.10);
}

TEST(SampleParts, InOrderEachReplicaHasConsecutiveSamples) {
    const auto parts =
        parts_of_batch({.replicas = 2, .microbatches = 2, .micro_batch_size = 2}, {});
    const std::vector<ReplicaPart> wanted{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}};
    EXPECT_EQ(parts, wanted);
}

TEST(SampleParts, AMicrobatchWithTooManyTokensIsSplit) {
    std::vector<SampleSize> sizes(8, {1, 10});
    sizes[1].tokens = 25;  // too large even alone
    sizes[6].tokens = 15;
    PartRules rules{.replicas = 2, .microbatches = 2, .micro_batch_size = 2, .tokens_most = 20};
    const std::vector<ReplicaPart> wanted{{{0}, {1}, {2, 3}}, {{4, 5}, {6}, {7}}};
    EXPECT_EQ(parts_of_batch(rules, sizes), wanted);
    rules.multiple = 2;  // empty micro-batches keep the number a multiple
    auto more = wanted;
    for (ReplicaPart& part : more) part.emplace_back();
    EXPECT_EQ(parts_of_batch(rules, sizes), more);
    rules.tokens_most = 1000;
    const std::vector<ReplicaPart> whole{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}};
    EXPECT_EQ(parts_of_batch(rules, sizes), whole);
}

}  // namespace
}  // namespace roll::train
