#include "worker/train/model/random.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace roll::train {
namespace {

// The expected numbers are the known answers of Random123, the implementation by Philox's authors.
TEST(Philox, GivesTheKnownAnswers) {
    EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
              (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    constexpr std::uint32_t kOnes = 0xffffffff;
    EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

at::Tensor normals(std::int64_t size, std::uint64_t seed, std::string_view name) {
    at::Tensor tensor = at::empty({size}, at::kDouble);
    fill_normal(tensor, 2.0, seed, name);
    return tensor;
}

TEST(FillNormal, DependsOnSeedNameAndElementAlone) {
    const at::Tensor numbers = normals(100'001, 3, "w");
    EXPECT_TRUE(normals(777, 3, "w").equal(numbers.narrow(0, 0, 777)));
    EXPECT_FALSE(normals(777, 4, "w").equal(numbers.narrow(0, 0, 777)));
    EXPECT_FALSE(normals(777, 3, "v").equal(numbers.narrow(0, 0, 777)));
    at::set_num_threads(1);
    EXPECT_TRUE(normals(100'001, 3, "w").equal(numbers));
    at::Tensor rounded = at::empty({100'001}, at::kFloat);
    fill_normal(rounded, 2.0, 3, "w");
    EXPECT_TRUE(rounded.equal(numbers.to(at::kFloat)));
}

TEST(FillNormal, StartsAtAnyElement) {
    const at::Tensor numbers = normals(100, 3, "w");
    for (const std::int64_t first : {1, 2, 7}) {
        for (const std::int64_t size : {0, 1, 2, 50}) {
            const at::Tensor part = at::empty({size}, at::kDouble);
            fill_normal(part, 2.0, 3, "w", first);
            EXPECT_TRUE(part.equal(numbers.narrow(0, first, size))) << first << " " << size;
        }
    }
}

TEST(FillNormal, IsNormal) {
    const at::Tensor z = normals(1'000'000, 1, "w") / 2.0;
    EXPECT_NEAR(z.mean().item<double>(), 0, 0.005);
    EXPECT_NEAR(z.square().mean().item<double>(), 1, 0.01);
    EXPECT_NEAR(z.pow(4).mean().item<double>(), 3, 0.05);
    EXPECT_NEAR((z.slice(0, 1) * z.slice(0, 0, -1)).mean().item<double>(), 0, 0.005);
    EXPECT_NEAR(z.gt(1.959964).to(at::kDouble).mean().item<double>(), 0.025, 0.001);
}

TEST(Uniform, LiesFromZeroToOne) {
    double sum = 0;
    for (std::uint64_t i = 0; i < 10'000; ++i) {
        const double u = uniform(1, "s", i);
        ASSERT_TRUE(u >= 0 && u < 1);
        sum += u;
    }
    EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

}  // namespace
}  // namespace roll::train
