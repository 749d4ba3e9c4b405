// Tests how the profile of a training step names kernels and counts time.
#include "tests/worker/train/device/profile.hpp"

#include <gtest/gtest.h>

namespace roll::train {
namespace {

TEST(DeviceProfile, KernelsAreToldApartByTheirNames) {
    EXPECT_EQ(work_of("nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT"), Work::Product);
    EXPECT_EQ(work_of("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64"), Work::Product);
    EXPECT_EQ(work_of("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16>"), Work::Product);
    EXPECT_EQ(work_of("void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>"),
              Work::Attention);
    // Flash attention is made of CUTLASS's parts, whose names are in its own.
    EXPECT_EQ(work_of("void pytorch_flash::flash_fwd_kernel<cutlass::bfloat16_t>"),
              Work::Attention);
    EXPECT_EQ(work_of("void at::native::vectorized_elementwise_kernel<4, silu>"), Work::Other);
    EXPECT_EQ(work_of("Memcpy DtoD (Device -> Device)"), Work::Other);
}

TEST(DeviceProfile, OverlappingKernelsCountOnce) {
    EXPECT_EQ(covered({}), 0);
    EXPECT_EQ(covered({{5, 9}}), 4);
    EXPECT_EQ(covered({{5, 9}, {0, 6}, {1, 2}, {20, 21}}), 10);
    EXPECT_EQ(covered({{-9, -5}, {-5, -4}}), 5);
}

TEST(DeviceProfile, ACpuHasNoKernels) {
    int calls = 0;
    const auto profile = profile_kernels([&] { at::ones({3}).add_(++calls); }, 2);
    EXPECT_EQ(calls, 2);
    EXPECT_FALSE(profile.has_value());
}

TEST(DeviceProfile, TimedOperatorsAddUpToTheStep) {
    const spec::ModelConfig model{.family = "llama",
                                  .hidden = 32,
                                  .layers = 2,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 8,
                                  .intermediate = 48,
                                  .vocab = 64,
                                  .positions_max = 16};
    const Profile profile = profile_operators(model, 1, 16, at::kFloat, 1e6);
    EXPECT_GT(profile.products, 0);
    EXPECT_GT(profile.attention, 0);
    EXPECT_NEAR(profile.products + profile.attention + profile.other, 1e6, 1e-6);
    EXPECT_FALSE(profile.host.has_value());
    EXPECT_EQ(profile.costs.front().name, "all other work of a step");
    EXPECT_EQ(profile.costs.size(), 8);
}

}  // namespace
}  // namespace roll::train
